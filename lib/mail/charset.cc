#include "lib/mail/charset.h"

#include <fmt/format.h>

#include "lib/base/check.h"

namespace pen::mail {

bool all_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char c = at(i);
    std::size_t more = 0;
    // Bounds of the second byte: no overlong forms, no surrogates, at most U+10FFFF.
    unsigned low = 0x80, high = 0xbf;
    if (c < 0x80) {
    } else if (c >= 0xc2 && c <= 0xdf) {
      more = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
      more = 2;
      if (c == 0xe0) low = 0xa0;
      if (c == 0xed) high = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
      more = 3;
      if (c == 0xf0) low = 0x90;
      if (c == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    if (more > 0 && (at(i + 1) < low || at(i + 1) > high)) return false;
    for (std::size_t k = 2; k <= more; ++k)
      if ((at(i + k) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

std::string escape_utf8(std::string_view text) {
  PEN_CHECK(valid_utf8(text));
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i++]);
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    const unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    unsigned code = c & (0x3fU >> more);
    for (unsigned k = 0; k < more; ++k) code = code << 6 | (static_cast<unsigned char>(text[i++]) & 0x3fU);
    out += fmt::format("\\x{{{:X}}}", code);
  }
  return out;
}

}  // namespace pen::mail
