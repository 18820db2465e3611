#pragma once
/// Which filters and transports settings let a program name for a message: what else it names it was told by nobody.
///
/// Use:     filters_named(config, "smtpd").has(envelope.filter)
/// Rules:   all services of master.cf with that program count, each with its -o. Where a table or a policy server may
///          say FILTER, or a table names transports, anything may be named.
/// Pure.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace pen::config {

struct Ways {
  bool any = false;
  std::vector<std::string> named = {};

  bool has(std::string_view way) const { return any || std::ranges::find(named, way) != named.end(); }
};

/// By content_filter, and by FILTER in what the program looks at.
Ways filters_named(const Config& config, std::string_view program);
/// By mailbox_transport, fallback_transport and their tables.
Ways transports_named(const Config& config, std::string_view program);

}  // namespace pen::config
