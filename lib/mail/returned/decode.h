#pragma once
/// Content transfer encodings of small parts.
///
/// Use:     decoded("base64", text)
/// Rules:   what is malformed is taken as far as it goes, or as it is. Pure.
/// Source:  RFC 2045 sections 6.7 and 6.8.
#include <string>
#include <string_view>

namespace pen::returned {

/// encoding: the first word of the field, in lower case.
std::string decoded(std::string_view encoding, std::string text);

}  // namespace pen::returned
