#pragma once
/// defer_destinations: the rule by which the scheduler puts deliveries off.
///
/// Use:     PEN_TRY_ASSIGN(options.deferral_rule, deferral_rule(settings.defer_destinations, {}));
/// Form:    a match list of next hops, domains (".parent" for all below), hosts, addresses and networks, /file names
///          and type:table look-ups. Tables are read in qmgr's own loop: those that may wait are refused.
/// Errors:  a list that cannot be read; a table that waits. A table that is broken later puts everything off that is
///          asked of it, because "don't know" must not deliver what was to wait; the log says so once a minute.
/// Thread:  the rule is for one thread.
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/map/map.h"

namespace pen::qmgr {

using DeferralRule = std::function<std::string(std::string_view name, std::string_view address)>;

/// An empty list gives an empty function.
Result<DeferralRule> deferral_rule(std::string_view list, const map::OpenOptions& options);

}  // namespace pen::qmgr
