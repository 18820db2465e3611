#pragma once
/// ASCII text helpers. Nothing here depends on the locale: what matters in mail is ASCII.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen {

constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
constexpr bool ascii_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }
constexpr bool ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool ascii_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool ascii_alnum(char c) { return ascii_digit(c) || ascii_alpha(c); }

/// Lower-case copy, ASCII letters only.
std::string to_lower(std::string_view text);
/// Equal but for the case of ASCII letters.
bool iequals(std::string_view a, std::string_view b);
bool istarts_with(std::string_view text, std::string_view prefix);
std::string_view trim(std::string_view text);
/// Splits at any of the separator characters; runs of them count once and empty parts are left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators = " \t\r\n,");
/// The words with a separator between them.
std::string join(const std::vector<std::string>& words, std::string_view separator = " ");
/// Items of a list as settings and tables write it: split at white space and commas outside { }; groups keep their
/// braces, an unclosed one takes the rest of the text.
std::vector<std::string> split_list(std::string_view text);
/// Whether such a list has the word, in any case.
bool list_contains(std::string_view text, std::string_view word);
/// Decimal, digits only, no sign, must fit.
std::optional<unsigned long long> parse_unsigned(std::string_view text);
/// For replies, notices and what else must be ASCII: control bytes, and bytes over 126, become '?'; cut after max bytes
/// with "...".
std::string printable(std::string_view text, std::size_t max = 512);
/// For the log and for terminals: as printable(), but characters in UTF-8 stay, and none is cut in two. What would move
/// text, or let it be read in another order, is '?' too.
std::string readable(std::string_view text, std::size_t max = 512);
/// The bytes of the UTF-8 character that the text begins with, by RFC 3629: no over-long forms, no surrogates, nothing
/// above U+10FFFF. 0: it begins with none.
std::size_t utf8_length(std::string_view text);

}  // namespace pen
