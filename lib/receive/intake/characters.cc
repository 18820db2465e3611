#include "lib/receive/intake/characters.h"

#include <string>

namespace pen::intake {

std::string_view error_module(CharactersError) { return "characters"; }
std::string_view describe(CharactersError) { return "not an escape sequence"; }

Result<Characters> parse_characters(std::string_view text) {
  static constexpr std::string_view kLetters = "abfnrtv\\", kMeant = "\a\b\f\n\r\t\v\\";
  Characters set;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned c = static_cast<unsigned char>(text[i]);
    if (c == '\\') {
      const std::size_t begin = ++i;
      const auto octal = [&] { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
      if (octal()) {
        for (c = 0; octal() && i < begin + 3; ++i) c = c * 8 + static_cast<unsigned>(text[i] - '0');
        --i;
      } else {
        const auto at = i < text.size() ? kLetters.find(text[i]) : std::string_view::npos;
        c = at == std::string_view::npos ? 256 : static_cast<unsigned char>(kMeant[at]);
      }
      if (c > 255)
        return fail(CharactersError::bad_escape,
                    "\"\\" + std::string(text.substr(begin, 3)) + "\" in \"" + std::string(text) + "\"");
    }
    set.set(c);
  }
  return set;
}

}  // namespace pen::intake
