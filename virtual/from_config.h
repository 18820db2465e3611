#pragma once
/// What main.cf says of virtual mailboxes, as the rules that delivery goes by.
///
/// Use:     PEN_TRY_ASSIGN(auto rules, virtuals::rules_from(context.settings()));
///          for (const auto* maps : {&rules.mailboxes, …}) … maps->problems() …
/// Errors:  those of tables, and of settings that contradict each other: they name the setting.
#include "lib/config/settings.h"
#include "virtual/agent.h"

namespace pen::virtuals {

/// A table that is there but broken is told by its problems().
Result<Rules> rules_from(const config::Settings& s);

}  // namespace pen::virtuals
