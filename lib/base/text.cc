#include "lib/base/text.h"

#include <algorithm>
#include <charconv>

namespace pen {

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), ascii_lower);
  return out;
}

bool iequals(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

bool istarts_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && iequals(text.substr(0, prefix.size()), prefix);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && ascii_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && ascii_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return parts;
    const auto end = std::min(text.find_first_of(separators, start), text.size());
    parts.push_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const auto& word : words) {
    if (&word != &words.front()) out += separator;
    out += word;
  }
  return out;
}

namespace {
/// Calls see(item) for each item of a list until see() answers false.
template <class See>
void each_item(std::string_view text, See see) {
  std::size_t start = std::string_view::npos, depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && (ascii_space(c) || c == ',')) {
      if (start != std::string_view::npos && !see(text.substr(start, i - start))) return;
      start = std::string_view::npos;
      continue;
    }
    if (start == std::string_view::npos) start = i;
    if (c == '{') ++depth;
    if (c == '}' && depth > 0) --depth;
  }
  if (start != std::string_view::npos) see(text.substr(start));
}
}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  each_item(text, [&](std::string_view item) {
    items.emplace_back(item);
    return true;
  });
  return items;
}

bool list_contains(std::string_view text, std::string_view word) {
  bool found = false;
  each_item(text, [&](std::string_view item) {
    found = iequals(item, word);
    return !found;
  });
  return found;
}

std::optional<unsigned long long> parse_unsigned(std::string_view text) {
  unsigned long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::string printable(std::string_view text, std::size_t max) {
  std::string out;
  out.reserve(std::min(text.size(), max) + 3);
  for (const char c : text) {
    if (out.size() == max) return out + "...";
    out.push_back(c >= 32 && c < 127 ? c : '?');
  }
  return out;
}

}  // namespace pen
