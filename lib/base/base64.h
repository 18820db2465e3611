#pragma once
/// Base 64 in the form of SASL profiles (RFC 4648 section 4): with padding, no other characters.
///
/// Thread:  any. Bounds: the caller's; only the result is allocated.
#include <optional>
#include <string>
#include <string_view>

namespace pen {

std::string base64_encode(std::string_view bytes);
/// nullopt: a character outside the alphabet, padding that is missing or not at the end, a length that is not a
/// multiple of four, or unused bits that are set.
std::optional<std::string> base64_decode(std::string_view text);
/// Whether base64_decode() would succeed.
bool valid_base64(std::string_view text);

}  // namespace pen
