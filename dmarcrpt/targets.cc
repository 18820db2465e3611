#include "dmarcrpt/targets.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/send/daily_reports/submitter.h"
#include "lib/trust/dmarc/record.h"

namespace pen::dmarcrpt {
namespace {

std::string domain_of(std::string_view address) {
  const auto at = address.rfind('@');
  return to_lower(at == address.npos ? address : address.substr(at + 1));
}

/// "10m" in bytes (RFC 7489 section 6.4); 0: it is malformed, or none.
std::uint64_t size_of(std::string_view text) {
  std::uint64_t unit = 1;
  if (!text.empty() && !ascii_digit(text.back())) {
    constexpr std::string_view kUnits = "kmgt";
    const auto at = kUnits.find(ascii_lower(text.back()));
    if (at == kUnits.npos) return 0;
    unit <<= 10 * (at + 1);
    text.remove_suffix(1);
  }
  const auto number = parse_unsigned(text);
  return !number || *number > UINT64_MAX / unit ? 0 : *number * unit;
}

bool within(std::string_view name, std::string_view domain) {
  return name == domain ||
         (name.ends_with(domain) && name.size() > domain.size() && name[name.size() - domain.size() - 1] == '.');
}

}  // namespace

std::vector<Rua> read_rua(std::string_view rua) {
  std::vector<Rua> out;
  for (const auto part : split(rua, ",")) {
    auto uri = trim(part);
    if (uri.size() > kMaxTarget) continue;
    Rua one;
    // An exclamation mark of the address itself is written %21.
    if (const auto mark = uri.find('!'); mark != uri.npos) {
      one.max_size = size_of(uri.substr(mark + 1));
      uri = uri.substr(0, mark);
    }
    auto address = daily_reports::address_of_mailto(uri);
    if (!address || out.size() == kMaxTargets) continue;
    one.address = *std::move(address);
    if (std::ranges::find(out, one.address, &Rua::address) == out.end()) out.push_back(std::move(one));
  }
  return out;
}

bool is_outside(std::string_view address, std::string_view domain, const dmarc::Suffixes* suffixes) {
  const std::string target = domain_of(address), own = to_lower(domain);
  if (within(target, own)) return false;
  return suffixes == nullptr || suffixes->organisation(target) != suffixes->organisation(own);
}

std::string consent_name(std::string_view domain, std::string_view address) {
  return to_lower(domain) + "._report._dmarc." + domain_of(address);
}

bool consents(const std::vector<std::string>& texts) { return std::ranges::any_of(texts, dmarc::Record::is_one); }

}  // namespace pen::dmarcrpt
