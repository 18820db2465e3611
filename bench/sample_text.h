#pragma once
/// Text for messages that are measured: lines of words, always the same.
///
/// Use:    const std::string body = lines_of_text(4096);
#include <string>

#include "lib/base/random.h"

namespace pen::bench {

/// At least `size` bytes of lines of 20 to 77 characters, with CR LF.
inline std::string lines_of_text(std::size_t size) {
  Random random(1);
  std::string text;
  while (text.size() < size) {
    for (auto n = 20 + random.below(58); n > 0; --n)
      text += static_cast<char>(random.below(6) == 0 ? ' ' : 'a' + random.below(26));
    text += "\r\n";
  }
  return text;
}

}  // namespace pen::bench
