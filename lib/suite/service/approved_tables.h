#pragma once
/// proxy_read_maps: which tables may be opened as proxy:type:name.
///
/// Rules:   Postfix's: of the words of the list, those that begin with proxy:, inner tables of unionmap and pipemap
///          among them; "proxy:" in front counts once or more, also behind debug:; the rest must be the same text.
///          Words of other kinds, as the names in $mydestination, approve nothing.
/// Use:     map::approve_proxied([&](const std::string& table) { return service::approves(config, table); });
/// Which:   the list of main.cf, whatever a service's -o changes in it; and a service's own, which may name more.
/// Thread:  any.
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace pen::service {

/// table: "type:name". Reads main.cf again if the configuration has changes of a service.
bool approves(const config::Config& config, std::string_view table);

}  // namespace pen::service
