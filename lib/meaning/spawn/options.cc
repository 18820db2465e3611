#include "lib/meaning/spawn/options.h"

#include "lib/base/text.h"

namespace pen::spawner {

std::expected<Options, std::string> parse_options(const std::vector<std::string>& words) {
  Options o;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto equals = word.find('=');
    const auto name = trim(word.substr(0, equals));
    const auto value = equals == std::string_view::npos ? std::string_view() : trim(word.substr(equals + 1));
    if (name == "argv" && equals != std::string_view::npos) {
      if (!value.empty()) o.argv.emplace_back(value);
      o.argv.insert(o.argv.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (name != "user" || equals == std::string_view::npos)
      return std::unexpected("\"" + printable(word, 40) + "\" is neither user= nor argv=");
    const auto colon = value.find(':');
    o.user = value.substr(0, colon);
    o.group = colon == std::string_view::npos ? std::string_view() : value.substr(colon + 1);
    if (o.user.empty() || (colon != std::string_view::npos && o.group.empty()))
      return std::unexpected("user= needs user or user:group");
  }
  if (o.user.empty()) return std::unexpected("user= is missing: a command needs an account to run as");
  if (o.argv.empty()) return std::unexpected("argv= is missing: there is no command to run");
  return o;
}

}  // namespace pen::spawner
