#pragma once
/// Whether a word of a list of ciphers or groups means something to OpenSSL, which passes over words that it does not
/// know: a slip of the pen then leaves on what was to be off.
///
/// Use:     for (const auto word : unknown_ciphers("HIGH:!aNUL:@STRENGTH")) … tell
/// Source:  openssl-ciphers(1), of 3.0 and of the versions whose ciphers are gone.
/// Thread:  any.
#include <string>
#include <string_view>
#include <vector>

namespace pen::tls {

/// The names of a list of ciphers, with white space, commas or colons between, that no OpenSSL knows or has known: RC4
/// and EXPORT are known. Without !, - and + in front.
std::vector<std::string> unknown_ciphers(std::string_view list);
/// A suite of TLS 1.3, which lists of ciphers have no effect on.
bool is_tls13_suite(std::string_view name);

/// A group for key exchange that this OpenSSL or a newer one knows.
bool is_known_group(const std::string& name);

}  // namespace pen::tls
