#include "lib/send/mailbox/macros.h"

#include <algorithm>
#include <optional>

namespace pen::mailbox {

std::string filtered(std::string_view value, std::string_view filter) {
  std::string out(value);
  std::ranges::replace_if(out, [&](char c) { return !filter.contains(c); }, '_');
  return out;
}

config::Expanded expand_values(std::string_view text, const Values& values, std::string_view filter) {
  const auto look = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = std::ranges::find(values, name, &Values::value_type::first);
    if (found == values.end() || found->second.empty()) return std::nullopt;
    std::string out;
    for (const char c : filter.empty() ? found->second : filtered(found->second, filter)) {
      if (c == '$') out += '$';  // a literal dollar in the "$name" language
      out += c;
    }
    return out;
  };
  return config::expand(text, look);
}

std::string expand_macros(std::string_view text, const Values& values, std::string_view filter) {
  return expand_values(text, values, filter).text;
}

}  // namespace pen::mailbox
