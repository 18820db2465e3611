#include "lib/map/utf8.h"

#include <cstddef>

namespace pen::map {

bool is_utf8(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() - i < size) return false;
    for (std::size_t k = 1; k < size; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    const unsigned second = byte(i + 1);
    if (first == 0xe0 && second < 0xa0) return false;
    if (first == 0xed && second > 0x9f) return false;
    if (first == 0xf0 && second < 0x90) return false;
    if (first == 0xf4 && second > 0x8f) return false;
    i += size;
  }
  return true;
}

}  // namespace pen::map
