#include "lib/dmarc/author.h"

#include <algorithm>

#include "lib/mail/address.h"
#include "lib/net/dns_packet.h"

namespace pen::dmarc {

Authors authors_of(const std::vector<std::string_view>& values) {
  Authors out;
  for (const auto value : values) {
    const auto addresses = mail::parse_address_list(value, Authors::kMost + 1);
    if (addresses.empty()) out.problem = "a From: without an address";
    for (const auto& one : addresses) {
      const auto domain = mail::domain_part(one.address);
      const auto name = mail::fully_qualified(domain, true) ? net::normal_name(domain) : std::nullopt;
      if (!name)
        out.problem = "an address in From: without a domain";
      else if (std::ranges::find(out.domains, *name) == out.domains.end())
        out.domains.push_back(*name);
    }
    if (addresses.size() > Authors::kMost || out.domains.size() > Authors::kMost)
      out.problem = "too many addresses in From:";
    if (!out.problem.empty()) break;
  }
  if (values.empty()) out.problem = "no From:";
  if (!out.problem.empty()) out.domains.clear();
  return out;
}

}  // namespace pen::dmarc
