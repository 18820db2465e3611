#include "lib/suite/service/approved_tables.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/map/table_file.h"

namespace pen::service {
namespace {

constexpr std::string_view kProxy = "proxy:";
constexpr int kMaxDepth = 10;  // nesting of braces, as in the tables themselves

/// The text between braces; without braces: all of it.
std::string_view inside(std::string_view text) {
  text = trim(text);
  return text.size() >= 2 && text.front() == '{' && text.back() == '}' ? trim(text.substr(1, text.size() - 2)) : text;
}

bool names(const std::vector<std::string>& items, std::string_view table, int depth) {
  return std::ranges::any_of(items, [&](const std::string& item) {
    const std::string word(item.starts_with('{') ? split_list(inside(item)).front() : item);
    std::string_view rest = word;
    for (bool proxied = rest.starts_with(kProxy); map::take_adapter(rest); proxied = rest.starts_with(kProxy))
      if (proxied && rest == table) return true;
    for (const std::string_view combined : {"unionmap:", "pipemap:"})
      if (rest.starts_with(combined) && depth < kMaxDepth)
        return names(split_list(inside(rest.substr(combined.size()))), table, depth + 1);
    return false;
  });
}

bool lists(const config::Config& config, std::string_view table) {
  return names(config.list("proxy_read_maps").value_or(std::vector<std::string>()), table, 0);
}

}  // namespace

bool approves(const config::Config& config, std::string_view table) {
  if (lists(config, table)) return true;
  const auto whole = config::inspect(config.directory());
  return whole && lists(*whole, table);
}

}  // namespace pen::service
