#pragma once
/// What main.cf says of local delivery, as the rules that it goes by.
///
/// Use:     PEN_TRY_ASSIGN(auto rules, local::rules_from(context.settings(), tables));
/// Errors:  config::ConfigError::bad_value and those of tables: name the setting, or the table, and what is wrong.
#include "lib/config/settings.h"
#include "lib/map/map.h"
#include "local/rules.h"

namespace pen::local {

/// All of Rules but `ours` and what no setting changes. tables: how mailbox_command_maps, mailbox_transport_maps and
/// fallback_transport_maps are opened; a table that is there but broken is told by its problems().
Result<Rules> rules_from(const config::Settings& settings, const map::OpenOptions& tables);

}  // namespace pen::local
