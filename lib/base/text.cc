#include "lib/base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

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

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char c = at(0);
  if (c < 0x80) return 1;
  std::size_t length = 0;
  // Bounds of the second byte: no over-long forms, no surrogates, at most U+10FFFF.
  unsigned low = 0x80, high = 0xbf;
  if (c >= 0xc2 && c <= 0xdf) {
    length = 2;
  } else if (c >= 0xe0 && c <= 0xef) {
    length = 3;
    if (c == 0xe0) low = 0xa0;
    if (c == 0xed) high = 0x9f;
  } else if (c >= 0xf0 && c <= 0xf4) {
    length = 4;
    if (c == 0xf0) low = 0x90;
    if (c == 0xf4) high = 0x8f;
  }
  if (length == 0 || text.size() < length || at(1) < low || at(1) > high) return 0;
  for (std::size_t k = 2; k < length; ++k)
    if ((at(k) & 0xc0) != 0x80) return 0;
  return length;
}

namespace {

/// C1 controls, separators of lines, and the marks that turn the order of text round.
bool moves_text(std::string_view character) {
  if (character.size() == 2) return character < "\xc2\xa0" || character == "\xd8\x9c";
  if (character.size() != 3 || !character.starts_with("\xe2")) return false;
  return (character >= "\xe2\x80\x8e" && character <= "\xe2\x80\x8f") ||
         (character >= "\xe2\x80\xa8" && character <= "\xe2\x80\xae") ||
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");
}

/// How many bytes of printable ASCII the text begins with.
std::size_t plain_length(std::string_view text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  std::size_t i = 0;
  // Eight at a time: none has its highest bit, or gets it by subtracting 32 (below a blank) or adding 1 (DEL).
  for (std::uint64_t eight; i + sizeof eight <= text.size(); i += sizeof eight) {
    std::memcpy(&eight, text.data() + i, sizeof eight);
    if (((eight | (eight - 32 * kOnes) | (eight + kOnes)) & kHigh) != 0) break;
  }
  while (i < text.size() && text[i] >= 32 && text[i] < 127) ++i;
  return i;
}

}  // namespace

std::string readable(std::string_view text, std::size_t max) {
  std::string out;
  out.reserve(std::min(text.size(), max) + 3);
  while (!text.empty()) {
    const auto plain = text.substr(0, plain_length(text));  // nearly always all of it
    if (out.size() + plain.size() > max) return out.append(plain.substr(0, max - out.size())) + "...";
    out += plain;
    text.remove_prefix(plain.size());
    if (text.empty()) break;
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    if (out.size() + length > max) return out + "...";
    if (length > 1 && !moves_text(text.substr(0, length)))
      out += text.substr(0, length);
    else
      out += '?';
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace pen
