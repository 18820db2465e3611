#pragma once
/// TLSA records (RFC 6698): a domain's statements about its hosts' certificates, and which of them SMTP may use.
///
/// Use:     auto record = parse_tlsa("3 1 1 0123…");  if (record && usable_for_smtp(*record))
///          options.tlsa.push_back(*record);
/// Pure. Thread: any.
/// Source:  RFC 6698 section 2.1, RFC 7671 section 4, RFC 7672 section 3.1.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pen::tls {

struct Tlsa {
  std::uint8_t usage = 3, selector = 1, matching = 1;
  std::string data;  // bytes
};

/// Parses "usage selector matching hex", the form that lib/net/dns.h gives; nullopt: malformed.
std::optional<Tlsa> parse_tlsa(std::string_view text);

/// Usage 2 (DANE-TA) or 3 (DANE-EE), selector 0 (certificate) or 1 (public key), and a matching type: 1 or 2 with the
/// size of SHA2-256 or SHA2-512, or 0 with a real certificate or key.
bool usable_for_smtp(const Tlsa& record);

}  // namespace pen::tls
