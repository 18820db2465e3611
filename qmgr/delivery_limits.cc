#include "qmgr/delivery_limits.h"

#include <map>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::qmgr {

Result<std::function<ShapingOptions::Limit(const std::string&)>> delivery_limits(std::string_view list,
                                                                                 const map::OpenOptions& options) {
  if (trim(list).empty()) return nullptr;
  PEN_TRY_ASSIGN(auto maps, map::MapList::open(list, options.of("delivery_limit_maps")));
  if (maps.blocking())
    return fail(
        map::MapError::bad_spec,
        "delivery_limit_maps: this type of table may wait for others, which the queue manager cannot; use lmdb, "
        "texthash, cidr, pcre, regexp, static or inline");
  struct State {
    map::MapList maps;
    const Clock* clock;
    std::map<std::string, ShapingOptions::Limit> known;  // what limits anything
    SteadyTime warned = SteadyTime::min();
    bool may_warn() {
      const SteadyTime now = clock->now();
      if (warned != SteadyTime::min() && now - warned < seconds(60)) return false;
      warned = now;
      return true;
    }
  };
  auto state = std::make_shared<State>(State{std::move(maps), &system_clock(), {}});
  return [state](const std::string& name) -> ShapingOptions::Limit {
    const auto known = state->known.find(name);
    const auto value = state->maps.lookup(name);
    if (!value) {
      if (state->may_warn())
        log::warning("delivery_limit_maps: {}; what was read before counts on", value.error().message());
      return known == state->known.end() ? ShapingOptions::Limit{} : known->second;
    }
    if (!*value) {
      if (known != state->known.end()) state->known.erase(known);
      return {};
    }
    const auto limit = shaping::parse_limit(**value);
    if (!limit) {
      if (state->may_warn())
        log::warning("delivery_limit_maps: {}: \"{}\" {}: it limits nothing", name, printable(**value, 100),
                     limit.error());
      return {};
    }
    return state->known[name] = *limit;
  };
}

}  // namespace pen::qmgr
