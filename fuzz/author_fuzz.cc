// All readers of a header see the same author, or the mail does not pass for anybody. Beside
// our readers stands one that knows no more of the grammar than the programs in which people read mail.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/header_fields.h"
#include "lib/trust/dkim/canonical.h"
#include "lib/trust/dmarc/author.h"

namespace {

using namespace pen;

/// Lines end in CRLF, and up to the first one that is no field the content is the header: as it is stored.
std::string stored(std::string_view input) {
  std::string out;
  for (const char c : input) {
    if (c == '\r') continue;
    if (c == '\n') out += '\r';
    out += c;
  }
  return out + "\r\n";
}

/// Names up to the colon, lines that begin with a blank belong to the one before.
std::vector<std::string> plain_fields(std::string_view header) {
  std::vector<std::string> out;
  bool ours = false;
  while (!header.empty()) {
    const auto end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 2, header.size()));
    if (line.starts_with(' ') || line.starts_with('\t')) {
      if (ours) out.back() += "\r\n" + std::string(line);
      continue;
    }
    const auto colon = line.find(':');
    ours = colon != std::string_view::npos && iequals(trim(line.substr(0, colon)), "From");
    if (ours) out.emplace_back(line.substr(colon + 1));
  }
  return out;
}

bool plain(char c) { return ascii_alnum(c) || c == '.' || c == '-'; }

/// The domain of "Name <local@domain>" or "local@domain"; "": it is more than that.
std::string plain_domain(std::string_view one) {
  one = trim(one);
  if (const auto open = one.find('<'); open != std::string_view::npos) {
    if (!one.ends_with('>')) return {};
    one = one.substr(open + 1, one.size() - open - 2);
  }
  const auto at = one.find('@');
  if (at == std::string_view::npos || at == 0 || !std::ranges::all_of(one.substr(0, at), plain)) return {};
  const std::string domain = to_lower(one.substr(at + 1));
  bool good = domain.contains('.') && domain.size() < 200 && std::ranges::all_of(domain, plain);
  for (const std::string_view label : split(domain, "."))
    good = good && label.size() < 64 && !label.starts_with('-') && !label.ends_with('-');
  const bool ends = domain.starts_with('.') || domain.ends_with('.') || domain.contains("..");
  const bool number = !domain.empty() && domain.back() >= '0' && domain.back() <= '9';
  return good && !ends && !number ? domain : std::string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content = stored({reinterpret_cast<const char*>(data), size});
  const auto fields = dkim::split_fields(content, 100'000);
  const auto parsed = mail::HeaderFields::parse(content);
  // A line of an mbox on top is written as a field before anybody looks.
  if (!parsed.fields.all().empty() && parsed.fields.all().front().name.empty()) return 0;
  std::vector<std::string_view> checked;
  std::vector<std::string> filtered;
  for (const auto& field : fields)
    if (iequals(field.name, "From")) checked.push_back(field.whole.substr(field.whole.find(':') + 1));
  for (const auto& field : parsed.fields.all())
    if (iequals(trim(field.name), "From")) filtered.push_back(field.value);
  PEN_CHECK(std::ranges::equal(checked, filtered), "filters see another author");
  const auto seen = plain_fields(std::string_view(content).substr(0, parsed.size));
  PEN_CHECK(std::ranges::equal(checked, seen), "people see another author");
  const auto authors = dmarc::authors_of(checked);
  if (!authors.problem.empty()) return 0;  // it does not pass
  for (const std::string& value : seen) {
    // Comments, quoted texts, groups and routes are beyond that reader.
    if (value.find_first_of("\"\\():;") != std::string::npos) continue;
    for (const std::string_view one : split(value, ",")) {
      const std::string domain = plain_domain(one);
      PEN_CHECK(domain.empty() || std::ranges::find(authors.domains, domain) != authors.domains.end(),
                "an author whom nobody has looked at");
    }
  }
  return 0;
}
