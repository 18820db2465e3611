#include "trivial-rewrite/login_keys.h"

namespace pen::rewrite {

Result<std::string> LoginKeys::find(std::string_view sender, std::string_view next_hop, std::string_view host) const {
  if (maps.empty()) return std::string();
  if (sender_dependent && !sender.empty()) {
    PEN_TRY_ASSIGN(const auto hit,
                   map::find_address(maps, sender, {.bare_user = false, .at_domain = true, .delimiters = delimiters}));
    if (hit && !hit->value.empty()) return hit->key;
  }
  for (const auto key : {host, next_hop}) {
    if (key.empty()) continue;
    PEN_TRY_ASSIGN(const auto value, maps.lookup(key));
    if (value && !value->empty()) return std::string(key);
  }
  return std::string();
}

}  // namespace pen::rewrite
