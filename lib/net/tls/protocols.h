#pragma once
/// Which versions of TLS a setting permits, and the cipher lists of Postfix's grades.
///
/// Use:     PEN_TRY_ASSIGN(auto protocols, Protocols::parse(settings.smtpd_tls_protocols));
/// Source:  Postfix postconf(5) smtpd_tls_protocols, smtpd_tls_ciphers, tls_medium_cipherlist.
/// Thread:  values; any.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::tls {

/// Numbers as on the wire: 0x0301 is TLSv1, 0x0304 is TLSv1.3. SSLv2 and SSLv3 are never used; only their names are
/// known.
struct Protocols {
  std::uint16_t lowest = 0;   // 0: no bound
  std::uint16_t highest = 0;  // 0: no bound
  std::vector<std::uint16_t> excluded;

  /// Parses both notations, also mixed: bounds (">=TLSv1.2, <=TLSv1.3", names or hexadecimal as in ">=0303"), and the
  /// older lists of excluded versions ("!SSLv2, !SSLv3") or, without an exclamation mark, of the permitted ones.
  /// Error: the unknown word, or that no version is left.
  static Result<Protocols> parse(std::string_view text);
  bool permits(std::uint16_t version) const;
  bool operator==(const Protocols&) const = default;
};

/// "TLSv1.2" for 0x0303.
std::string_view protocol_name(std::uint16_t version);

/// The cipher list of a grade without the excluded ciphers: each word of `excluded` (separated by white space, commas
/// and colons) is removed for good.
std::string cipher_list(std::string_view grade_list, const std::vector<std::string>& excluded);

/// Groups for key exchange, as OpenSSL's list. marks: OpenSSL (3.5 and later) lets a client say for which group it
/// sends a share at once. For one with a lattice (ML-KEM) the first message would fill more than a packet, which some
/// servers cannot read: then the share is that of the first other group, and a server that wants the lattice asks for
/// it.
std::string groups_list(const std::vector<std::string>& groups, bool marks);

}  // namespace pen::tls
