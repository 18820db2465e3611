#include "qmgr/deferral_rule.h"

#include <memory>

#include "lib/base/log.h"
#include "lib/map/match_list.h"

namespace pen::qmgr {

Result<DeferralRule> deferral_rule(std::string_view list, const map::OpenOptions& options) {
  PEN_TRY_ASSIGN(auto opened,
                 map::MatchList::open(map::MatchList::Kind::host, list,
                                      {.parent_domains = false, .open = options.of("defer_destinations")}));
  if (opened.empty()) return DeferralRule();
  if (opened.blocking())
    return fail(map::MapError::bad_spec,
                "defer_destinations: this type of table may wait for others, which the queue "
                "manager cannot; use lmdb, texthash, cidr, pcre, regexp, static or inline");
  struct State {
    map::MatchList list;
    const Clock* clock;
    SteadyTime warned = SteadyTime::min();
  };
  auto state = std::make_shared<State>(State{std::move(opened), options.clock});
  return [state](std::string_view name, std::string_view address) -> std::string {
    const auto matches = state->list.matches_host(name, address);
    if (matches) return *matches ? "defer_destinations" : "";
    if (const SteadyTime now = state->clock->now();
        state->warned == SteadyTime::min() || now - state->warned >= seconds(60)) {
      state->warned = now;
      log::warning("defer_destinations: {}; mail that it is asked about waits", matches.error().message());
    }
    return "defer_destinations, whose table cannot be read";
  };
}

}  // namespace pen::qmgr
