#pragma once
/// Which OpenSSL this is, for people and scripts that ask (penconf -T).
///
/// Thread:  any.
#include <string>
#include <string_view>
#include <vector>

namespace pen::tls {

/// "OpenSSL 3.0.19 27 Jan 2026": of the headers that this was compiled with.
std::string_view compiled_version();
/// The same of the library that is loaded.
std::string running_version();
/// The algorithms that a private key may be of, in the order of their names: "ecdsa", "ed25519", …
std::vector<std::string_view> public_key_algorithms();

}  // namespace pen::tls
