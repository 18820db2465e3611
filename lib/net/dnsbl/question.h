#pragma once
/// The name under which a list is asked about an address or a domain.
///
/// Use:     if (auto q = about_address("192.0.2.7", "zen.example")) … *q is "7.2.0.192.zen.example"
///          if (auto q = about_name("mail.example", "dbl.example")) … *q is "mail.example.dbl.example"
/// nullopt: there is nothing to ask, as Postfix does not ask either: not an address, or a name that is empty, no host
///          name, an address literal, or ends in a number; or a name that grows too long for DNS.
/// Source:  RFC 5782 sections 2.1, 2.4 (IPv6: nibbles), 3.1. Pure; any thread.
#include <optional>
#include <string>
#include <string_view>

namespace pen::dnsbl {

std::optional<std::string> about_address(std::string_view address, std::string_view list_domain);
/// U-labels become A-labels.
std::optional<std::string> about_name(std::string_view name, std::string_view list_domain);

}  // namespace pen::dnsbl
