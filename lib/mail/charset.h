#pragma once
/// Tests for the characters of a text: they decide whether it may travel without SMTPUTF8.
#include <string>
#include <string_view>

namespace pen::mail {

bool all_ascii(std::string_view text);
/// Whether the text is valid by RFC 3629: no over-long forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text);
/// Writes an address of type utf-8 in ASCII (RFC 6533 section 3, utf-8-addr-xtext): each character that is not ASCII
/// becomes \x{HEX}. `text` must be valid_utf8().
std::string escape_utf8(std::string_view text);

}  // namespace pen::mail
