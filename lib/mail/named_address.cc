#include "lib/mail/named_address.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

/// The text with a backslash before each of these characters.
std::string escaped(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.contains(c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string named_address(std::string_view name, std::string_view address, bool obsolete) {
  const std::string where(address);
  if (name.empty()) return where;
  if (obsolete) return where + " (" + escaped(name, "()\\") + ")";
  // Atoms may hold ! and %, but old programs read them as routes.
  const bool atoms = std::ranges::all_of(name, [](char c) {
    return ascii_alnum(c) || static_cast<unsigned char>(c) >= 128 || std::string_view(" #$&'*+-/=?^_`{|}~").contains(c);
  });
  if (atoms) return std::string(name) + " <" + where + ">";
  return "\"" + escaped(name, "\"\\") + "\" <" + where + ">";
}

std::string encoded_name(std::string_view name, std::string_view charset) {
  constexpr std::size_t kMostWord = 75;
  const auto beyond_ascii = [](char c) { return static_cast<unsigned char>(c) >= 128; };
  if (charset.empty() || std::ranges::none_of(name, beyond_ascii)) return std::string(name);
  const std::string begin = "=?" + std::string(charset) + "?Q?";
  std::string out, word = begin;
  for (std::size_t i = 0; i < name.size();) {
    // A character of several bytes stays within one word.
    std::size_t end = i + 1;
    if (beyond_ascii(name[i]))
      while (end < name.size() && end < i + 4 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) ++end;
    std::string piece;
    for (; i < end; ++i) {
      const char c = name[i];
      if (c == ' ')
        piece += '_';
      else if (ascii_alnum(c))
        piece += c;
      else
        piece += fmt::format("={:02X}", static_cast<unsigned char>(c));
    }
    if (word.size() + piece.size() + 2 > kMostWord && word.size() > begin.size()) {
      out += word + "?= ";
      word = begin;
    }
    word += piece;
  }
  return out + word + "?=";
}

}  // namespace pen::mail
