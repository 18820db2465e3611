#pragma once
/// Finds, by reading a pattern, which literals a text must contain for the pattern to match.
///
/// Use:     const auto sets = required_literals("foo(bar|baz)+", PatternSyntax::pcre);   // {"foo"}, {"bar", "baz"}
/// Rules:   a matching text contains at least one literal of each set, both in lower case (ASCII). So a pattern's
///          flags do not matter, except those that change its syntax: the caller must not ask about such patterns.
///          Empty: nothing is known, and the pattern must be tried on every text. A construct that this module does
///          not fully understand (see the source) gives that answer: the answer is never wrong, only useless.
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
// A single character is in nearly every line.
inline constexpr std::size_t kMinLiteral = 2;
// Longer literals would hardly exclude more texts.
inline constexpr std::size_t kMaxLiteral = 16;

std::vector<std::vector<std::string>> required_literals(std::string_view pattern, PatternSyntax syntax);

}  // namespace pen::map
