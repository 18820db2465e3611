#pragma once
/// The public key of a selector, as DNS has it: the TXT record SELECTOR._domainkey.DOMAIN.
///
/// Use:     auto record = KeyRecord::parse("v=DKIM1; k=ed25519; p=11qY…");
///          zone = dns_text(name, value);                             // for a zone file, cut into strings
/// Errors:  syntax; unsupported: another version or type of key.
/// Source:  RFC 6376 section 3.6.1, RFC 8463 section 3. Pure.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/trust/dkim/error.h"

namespace pen::dkim {

struct KeyRecord {
  // A key of 16384 bits fits.
  static constexpr std::size_t kMaxSize = 16 * 1024;
  enum class Type : std::uint8_t { rsa, ed25519 };
  Type type = Type::rsa;
  std::string key;           // raw bytes; empty: the key is revoked
  bool sha256 = true;        // h= permits it
  bool for_mail = true;      // s= permits it
  bool testing = false;      // t=y
  bool same_domain = false;  // t=s: the domain of i= must be that of d=

  static Result<KeyRecord> parse(std::string_view text);
};

/// The name of the record.
std::string key_name(std::string_view selector, std::string_view domain);
/// A line of a zone file: NAME. IN TXT ( "…" "…" ), with strings of at most 255 bytes.
std::string zone_line(std::string_view name, std::string_view value);

}  // namespace pen::dkim
