#pragma once
/// Starts, stops and reloads the mail system of an instance.
///
/// Use:     const config::Config config = …;  return InstanceControl(config).start();
/// Errors:  each function returns the exit status after it reported the error: EX_UNAVAILABLE (already running, or
///          not running), EX_CONFIG, EX_NOPERM, EX_TEMPFAIL (it takes longer), EX_OSERR, or the exit status of
///          master.
#include <string>

#include "lib/base/time.h"
#include "lib/config/config.h"

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

/// Prints "penstock: text" to standard error; returns `status`.
int fail_with(int status, const std::string& text);

}  // namespace pen::tools
