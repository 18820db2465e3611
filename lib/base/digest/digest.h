#pragma once
/// Digests and keyed digests, by OpenSSL.
///
/// Use:     std::string signature = hmac(Digest::sha256, key, text);      // raw bytes
/// Source:  RFC 2104 (HMAC), RFC 8018 (PBKDF2), RFC 5802. Thread: any. Errors: none that a peer can cause; a digest
///          that OpenSSL does not have (MD5 in FIPS mode) gives an empty string.
#include <string>
#include <string_view>

namespace pen::digest {

enum class Digest : unsigned char { md5, sha1, sha256 };

/// Raw bytes.
std::string hash(Digest digest, std::string_view data);
std::string hmac(Digest digest, std::string_view key, std::string_view data);
std::string pbkdf2(Digest digest, std::string_view password, std::string_view salt, unsigned iterations);
/// Compares in a time that does not depend on where the texts differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace pen::digest
