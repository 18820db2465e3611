#pragma once
/// delivery_limit_maps: the administrator's limits of providers, domains, sources and tenants.
///
/// Use:     PEN_TRY_ASSIGN(shaping.limit, delivery_limits(settings.delivery_limit_maps, tables));
/// Form:    "provider:NAME", "domain:NAME", "source:NAME" or "tenant:NAME" gives a limit (lib/queue/shaping/limit.h).
/// Errors:  a list that cannot be read; a table that waits, for it is read in qmgr's own loop. Where a table breaks
///          later, what it last said of a name counts on; a value that is no limit limits nothing. The log says either
///          once a minute.
/// Thread:  the function is for one thread.
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/map/map.h"
#include "qmgr/scheduler/shaping_options.h"

namespace pen::qmgr {

/// An empty list gives an empty function.
Result<std::function<ShapingOptions::Limit(const std::string&)>> delivery_limits(std::string_view list,
                                                                                 const map::OpenOptions& options);

}  // namespace pen::qmgr
