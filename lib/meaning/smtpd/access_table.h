#pragma once
/// The table behind check_client_access and its like, as main.cf writes it: "type:table", or in braces with the order
/// in which check_ccert_access looks up what a certificate has:
///     { type:table, { search_order = cert_fingerprint, pubkey_fingerprint } }
///
/// Use:     auto access = read_access_table(argument);    // the error is a sentence for the log
/// Source:  Postfix postconf(5) check_ccert_access. Pure.
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace pen::smtpd {

/// A fingerprint of a client's certificate: of the whole, or of its public key.
enum class Print : std::uint8_t { certificate, key };

struct AccessTable {
  std::string table;
  std::vector<Print> order{Print::certificate, Print::key};
};
std::expected<AccessTable, std::string> read_access_table(std::string_view text);

}  // namespace pen::smtpd
