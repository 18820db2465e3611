#pragma once
/// Base 64 as SASL profiles carry it (RFC 4648 section 4): with padding, nothing else allowed.
///
/// Thread:  any. Bounds: the caller's; nothing is allocated beyond the result.
#include <optional>
#include <string>
#include <string_view>

namespace pen::sasl {

std::string base64_encode(std::string_view bytes);
/// nullopt: a character outside of the alphabet, padding that is missing or not at the end, a length that is no
/// multiple of four, bits set that no byte needs.
std::optional<std::string> base64_decode(std::string_view text);
/// Whether base64_decode() would succeed.
bool valid_base64(std::string_view text);

}  // namespace pen::sasl
