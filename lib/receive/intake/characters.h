#pragma once
/// Sets of characters, in the syntax of message_strip_characters and message_reject_characters.
///
/// Use:     auto set = parse_characters("\\0\\033");  if ((*set)[static_cast<unsigned char>(c)]) …
/// Source:  Postfix message_strip_characters: any character stands for itself; \a \b \f \n \r \t \v \\ and \ddd (one
///          to three octal digits) mean the same as in C. Pure.
/// Errors:  any other character after a backslash, and a number above 255: their meaning is unknown.
#include <bitset>
#include <string_view>

#include "lib/base/result.h"

namespace pen::intake {

using Characters = std::bitset<256>;

enum class CharactersError { bad_escape = 1 };
std::string_view error_module(CharactersError);
std::string_view describe(CharactersError e);

Result<Characters> parse_characters(std::string_view text);

}  // namespace pen::intake
