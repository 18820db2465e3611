#include "qmgr/delivery_limits.h"

#include <map>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::qmgr {

namespace {
constexpr std::uint64_t kMostConnections = 100'000;
}  // namespace

std::optional<ShapingOptions::Limit> parse_limit(std::string_view text) {
  ShapingOptions::Limit out;
  for (const auto word : split(text)) {
    if (word.starts_with("rate=") && !out.rate.limits()) {
      const auto rate = shaping::parse_rate(word.substr(5));
      if (!rate) return std::nullopt;
      out.rate = *rate;
    } else if (word.starts_with("connections=") && out.connections == 0) {
      const auto n = parse_unsigned(word.substr(12));
      if (!n || *n == 0 || *n > kMostConnections) return std::nullopt;
      out.connections = static_cast<std::uint32_t>(*n);
    } else {
      return std::nullopt;
    }
  }
  if (out == ShapingOptions::Limit{}) return std::nullopt;
  return out;
}

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
    const auto limit = parse_limit(**value);
    if (!limit) {
      if (state->may_warn())
        log::warning("delivery_limit_maps: {}: \"{}\" is not rate=N/s, N/m or N/h, connections=N: it limits nothing",
                     name, printable(**value, 100));
      return {};
    }
    return state->known[name] = *limit;
  };
}

}  // namespace pen::qmgr
