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
  /// Runs master and waits for its report. The reported text is empty if master died without one.
  void say_what_is_wrong();
  int run_master();
  /// Sends the signal to master; if patience is not 0, waits that long for its end.
  int signal_master(int signo, const char* done, milliseconds patience);
  const config::Config& config_;
};

/// The master of this host: with a lease also one that waits, and never another host's, although its lock is seen here.
Result<std::optional<service::Process>> own_master(const config::Config& config);
/// Prints "penstock: text" to standard error; returns `status`.
int fail_with(int status, const std::string& text);
/// Reports that a command cannot find out whether the mail system runs; returns the status.
int cannot_tell(const Error& why);

}  // namespace pen::tools
