#pragma once
/// Whether bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread.
#include <string_view>

namespace pen::map {

bool is_utf8(std::string_view text);

}  // namespace pen::map
