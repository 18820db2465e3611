#pragma once
/// Makes the rules of local delivery from main.cf.
///
/// Use:     PEN_TRY_ASSIGN(auto rules, local::rules_from(context.settings(), tables));
/// Errors:  config::ConfigError::bad_value and those of tables; they name the setting or table and the fault.
#include "lib/config/settings.h"
#include "lib/map/map.h"
#include "local/rules.h"

namespace pen::local {

/// All of Rules but `ours` and the fields without a setting. tables: how mailbox_command_maps, mailbox_transport_maps
/// and fallback_transport_maps are opened. A broken table is no error here: its problems() report it.
Result<Rules> rules_from(const config::Settings& settings, const map::OpenOptions& tables);

}  // namespace pen::local
