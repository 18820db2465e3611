#pragma once
/// Parses the text of one setting into a value: yes/no, numbers, sizes, times, lists.
///
/// Source:  postconf(5): booleans, time units s m h d w, lists split at blanks and commas with { } grouping.
///          Pure, bounded by the input; every function may be called from any thread.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::config {

/// "yes" or "no", in any case.
std::optional<bool> parse_bool(std::string_view text);
/// Decimal, an optional leading minus; nullopt: not a number, or too large for 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// Bytes: decimal with an optional suffix k, m or g (1024-based).
std::optional<std::int64_t> parse_size(std::string_view text);
/// Decimal with an optional suffix s, m, h, d, w (as in Postfix) or ms; without a suffix, `unit` applies.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text, char unit);
/// The unit of a TIME setting: the last letter of its default if that is one of s m h d w, else s.
char time_unit(std::string_view default_text);
/// The position after the closing brace of the group that starts at text[0] == open; npos if it is not closed.
std::size_t group_end(std::string_view text, char open = '{', char close = '}');

}  // namespace pen::config
