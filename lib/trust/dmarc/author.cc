#include "lib/trust/dmarc/author.h"

#include <algorithm>
#include <optional>

#include "lib/mail/address.h"
#include "lib/net/dns_packet.h"

namespace pen::dmarc {
namespace {

constexpr std::size_t kMostName = 254;  // bytes of a name, with its final dot

std::optional<std::string> domain_of(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  return mail::fully_qualified(text, true) ? net::normal_name(text) : std::nullopt;
}

/// The longest end of a name that is one itself.
std::optional<std::string> end_of_name(std::string_view text) {
  for (auto name = text.substr(text.size() - std::min(text.size(), kMostName));;) {
    if (auto domain = domain_of(name)) return domain;
    const auto dot = name.find('.');
    if (dot == name.npos) return std::nullopt;
    name.remove_prefix(dot + 1);
  }
}

/// NUL and its like, which readers leave out or stop at.
bool is_control(char c) {
  return (static_cast<unsigned char>(c) < ' ' && !std::string_view("\t\r\n").contains(c)) || c == '\x7f';
}

class Reader {
 public:
  void field(std::string_view value) {
    std::string text(value);
    if (std::erase_if(text, is_control) > 0) problem("a control character in From:");
    std::vector<std::string> skipped;
    const auto addresses = mail::parse_address_list(text, Authors::kMostAddresses + 1 - seen_, &skipped);
    seen_ += addresses.size() + skipped.size();
    if (seen_ > Authors::kMostAddresses) out.more = true;
    if (addresses.empty() && skipped.empty()) problem("a From: without an address");
    for (const auto& one : addresses) {
      const auto written = mail::domain_part(one.address);
      if (auto domain = domain_of(written))
        add(*std::move(domain));
      else
        unreadable("an address in From: without a domain", written);
    }
    for (const std::string_view one : skipped) {
      problem("text in From: that is no address");
      for (auto at = one.find('@'); at != one.npos && !out.more; at = one.find('@', at + 1)) {
        const auto rest = one.substr(at + 1);
        unreadable({}, rest.substr(0, rest.find_first_of(" \t\r\n@<>()[],:;\"\\")));
      }
    }
  }
  void problem(std::string_view what) {
    if (out.problem.empty()) out.problem = what;
  }
  Authors out;

 private:
  void add(std::string domain) {
    if (std::ranges::find(out.domains, domain) != out.domains.end()) return;
    if (out.domains.size() < Authors::kMost)
      out.domains.push_back(std::move(domain));
    else
      out.more = true;
  }
  void unreadable(std::string_view what, std::string_view domain) {
    problem(what);
    if (auto end = end_of_name(domain)) add(*std::move(end));
  }
  std::size_t seen_ = 0;
};

}  // namespace

Authors authors_of(const std::vector<std::string_view>& values) {
  Reader reader;
  for (const auto value : values) {
    reader.field(value);
    if (reader.out.more) break;
  }
  if (reader.out.more) reader.out.problem = "too many addresses in From:";
  if (values.empty()) reader.problem("no From:");
  return std::move(reader.out);
}

}  // namespace pen::dmarc
