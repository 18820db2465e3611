#include "local/macros.h"

#include "lib/base/text.h"

namespace pen::local {

std::string expand_macros(std::string_view text,
                          const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    text.remove_prefix(1);
    std::string_view name;
    if (text.starts_with('$')) {
      out += '$';
      text.remove_prefix(1);
      continue;
    }
    if (text.starts_with('{')) {
      const auto end = text.find('}');
      if (end == std::string_view::npos) return out;
      name = text.substr(1, end - 1);
      text.remove_prefix(end + 1);
    } else {
      std::size_t n = 0;
      while (n < text.size() && (ascii_alnum(text[n]) || text[n] == '_')) ++n;
      name = text.substr(0, n);
      text.remove_prefix(n);
    }
    for (const auto& [key, value] : values)
      if (key == name) {
        out += value;
        break;
      }
  }
  return out;
}

}  // namespace pen::local
