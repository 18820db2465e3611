#pragma once
/// What a text must contain for a pattern to match it, found by reading the pattern.
///
/// Use:     const auto sets = required_literals("foo(bar|baz)+", PatternSyntax::pcre);   // {"foo"}, {"bar", "baz"}
/// Rules:   a text that matches contains of each set at least one, once both are in lower case (ASCII). So the flags
///          of a pattern do not matter, but for those that change its syntax: the caller does not ask about these.
///          Empty: nothing is known; the pattern has to be tried on every text. Whatever this does not surely
///          understand (look at the source for what it does) gives that answer: it is never wrong, only of no help.
/// Bounds:  about kMaxSets sets of kMaxLiterals literals of kMinLiteral to kMaxLiteral bytes, all of them ASCII.
/// Source:  pcre2pattern(3), regex(7). Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pen::map {

enum class PatternSyntax : std::uint8_t { pcre, posix_extended };

inline constexpr std::size_t kMaxSets = 8;
inline constexpr std::size_t kMaxLiterals = 16;
// one character is in nearly every line
inline constexpr std::size_t kMinLiteral = 2;
// more of it would hardly tell more
inline constexpr std::size_t kMaxLiteral = 16;

std::vector<std::vector<std::string>> required_literals(std::string_view pattern, PatternSyntax syntax);

}  // namespace pen::map
