#pragma once
/// Whether an instance's mail system runs on this host, with a master or between two of them (docs/upgrade.md, "When
/// master dies").
///
/// Use:     PEN_TRY_ASSIGN(const auto runs, anything_runs(config));  if (runs) … leave its files alone
///          PEN_TRY_ASSIGN(const Interim now, interim(config));  if (now.any()) … say_interim(now)
/// Errors:  of running_master() and running_keeper(): it cannot be found out.
/// Thread:  of a process with a single thread: an alarm signal ends the wait for programs.
#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/suite/service/standby.h"

namespace pen::service {

/// What has the mail system in hand while there is no master, until the next one takes over.
struct Interim {
  std::optional<Keeping> keeper;  // starts the next one
  bool programs = false;          // of the former one take and deliver mail; looked for only where there is no keeper
  bool any() const { return keeper.has_value() || programs; }
};
/// Call it where there is no master. Programs that are about to end are waited for, for a second.
Result<Interim> interim(const config::Config& config);
/// For people, as part of a sentence: whose turn it is, and what it waits for. Safe for a terminal.
std::string describe(const Interim& now);
std::string describe(const Keeping& keeper);

/// A master, or what has the mail system in hand without one.
Result<bool> anything_runs(const config::Config& config);

}  // namespace pen::service
