#include "lib/receive/milter/macros.h"

namespace pen::milter {

std::string macro_data(Command event, const std::vector<std::string>& names, const MacroSource& source,
                       const std::map<std::string, std::string, std::less<>>& defaults) {
  std::string out(1, static_cast<char>(event));
  for (const std::string& written : names) {
    std::string_view name = written;
    if (name.size() > 2 && name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
    std::string value = source.macro(name);
    if (value.empty())
      if (const auto found = defaults.find(name); found != defaults.end()) value = found->second;
    if (value.empty()) continue;
    const std::string pair = c_string(written) + c_string(value);
    if (out.size() + pair.size() > kMaxData) break;
    out += pair;
  }
  return out;
}

}  // namespace pen::milter
