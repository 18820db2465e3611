#pragma once
/// Starts, stops and reloads the mail system of an instance.
///
/// Use:     const config::Config config = …;  return InstanceControl(config).start();
/// Errors:  each function returns the exit status after it reported the error: EX_UNAVAILABLE (already running, or
///          not running), EX_CONFIG, EX_NOPERM, EX_TEMPFAIL (it takes longer), EX_OSERR, or the exit status of
///          master.
#include <string>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/config.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/standby.h"

namespace pen::tools {

class InstanceControl {
 public:
  /// config must outlive this.
  explicit InstanceControl(const config::Config& config) : config_(config) {}
  /// Starts in the background; returns when the mail system serves.
  int start();
  /// Becomes master; returns only on failure.
  int start_foreground();
  int stop();
  int abort();
  int reload();
  int flush();

 private:
  void say_what_is_wrong();
  /// Runs master, below a keeper unless a service manager is there, and waits for its report.
  int run_master();
  /// Sends the signal to master, or to its keeper where there is no master at the moment, and waits for their end.
  int end_master(int signo, milliseconds patience);
  const config::Config& config_;
};

/// The master of this host: with a lease also one that waits, and never another host's, although its lock is seen here.
Result<std::optional<service::Process>> own_master(const config::Config& config);
/// What a keeper says of the time until the next master, as the end of a sentence; "": there is one.
std::string between_masters(const service::Answering& keeper);
/// Prints "penstock: text" to standard error; returns `status`.
int fail_with(int status, const std::string& text);
/// Reports that a command cannot find out whether the mail system runs; returns the status.
int cannot_tell(const Error& why);

}  // namespace pen::tools
