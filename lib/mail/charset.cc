#include "lib/mail/charset.h"

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::mail {

bool all_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
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
