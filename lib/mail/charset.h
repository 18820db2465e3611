#pragma once
/// Which characters a text is made of: what decides whether it may travel without SMTPUTF8.
#include <string>
#include <string_view>

namespace pen::mail {

bool all_ascii(std::string_view text);
/// RFC 3629: no over-long forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text);
/// An address of type utf-8 for where only ASCII may stand (RFC 6533 section 3, utf-8-addr-xtext): each character
/// that is not ASCII as \x{HEX}. `text` is valid_utf8().
std::string escape_utf8(std::string_view text);

}  // namespace pen::mail
