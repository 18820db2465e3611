#pragma once
/// The master of an instance, as commands find it; and what they say where there is none.
///
/// Use:     const auto master = next_master(config);
///          if (!master) return cannot_tell(master.error());
///          if (!*master) return say_no_master(config);
/// Thread:  of a process with a single thread.
#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/suite/service/lock.h"

namespace pen::tools {

/// The master of this host: with a lease also one that waits, and never another host's, although its lock is seen here.
/// nullopt: none. Errors: of running_master() and running_standby().
Result<std::optional<service::Process>> own_master(const config::Config& config);

/// The same, but where a master is about to come, as after the death of one, waits for it: for a moment, and not where
/// its keeper lets more time pass.
Result<std::optional<service::Process>> next_master(const config::Config& config);

/// Reports that own_master() gave an error; returns the exit status.
int cannot_tell(const Error& why);

/// What is the case without a master. status: EX_UNAVAILABLE, the mail system does not run; EX_TEMPFAIL, it is between
/// two masters.
struct WithoutMaster {
  int status;
  std::string text;  // a sentence without its stop
  std::optional<pid_t> keeper;
};
WithoutMaster without_master(const config::Config& config);
/// Reports it; returns the exit status.
int say_no_master(const config::Config& config);

}  // namespace pen::tools
