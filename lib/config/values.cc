#include "lib/config/values.h"

#include <limits>

#include "lib/base/text.h"

namespace pen::config {

std::optional<bool> parse_bool(std::string_view text) {
  if (iequals(text, "yes")) return true;
  if (iequals(text, "no")) return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto n = parse_unsigned(text);
  if (!n || *n > static_cast<unsigned long long>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  const auto value = static_cast<std::int64_t>(*n);
  return negative ? -value : value;
}

namespace {
std::optional<std::int64_t> times(std::int64_t value, std::int64_t factor) {
  if (value > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
  return value * factor;
}
}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t factor = 1;
  if (!text.empty()) {
    switch (ascii_lower(text.back())) {
      case 'k':
        factor = 1LL << 10;
        break;
      case 'm':
        factor = 1LL << 20;
        break;
      case 'g':
        factor = 1LL << 30;
        break;
      default:
        break;
    }
    if (factor != 1) text.remove_suffix(1);
  }
  const auto value = parse_integer(text);
  if (!value || *value < 0) return std::nullopt;
  return times(*value, factor);
}

std::optional<std::chrono::milliseconds> parse_time(std::string_view text, char unit) {
  std::size_t digits = 0;
  while (digits < text.size() && ascii_digit(text[digits])) ++digits;
  const std::string suffix = to_lower(text.substr(digits));
  std::int64_t factor = 0;
  // Postfix looks at one letter behind the number and at nothing behind that: 5mh is 5m.
  switch (suffix.empty() ? unit : suffix.front()) {
    case 's':
      factor = 1000;
      break;
    case 'm':
      factor = suffix == "ms" ? 1 : 60'000;
      break;
    case 'h':
      factor = 3'600'000;
      break;
    case 'd':
      factor = 86'400'000;
      break;
    case 'w':
      factor = 604'800'000;
      break;
    default:
      break;
  }
  const auto value = parse_integer(text.substr(0, digits));
  if (factor == 0 || !value) return std::nullopt;
  const auto total = times(*value, factor);
  if (!total) return std::nullopt;
  return std::chrono::milliseconds(*total);
}

char time_unit(std::string_view default_text) {
  if (default_text.empty()) return 's';
  const char last = default_text.back();
  return std::string_view("smhdw").find(last) != std::string_view::npos && default_text.size() > 1 &&
                 (ascii_digit(default_text[default_text.size() - 2]) || default_text[default_text.size() - 2] == '}')
             ? last
             : 's';
}

std::size_t group_end(std::string_view text, char opening, char closing) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

}  // namespace pen::config
