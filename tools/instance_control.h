#pragma once
/// Starts, stops and reloads the mail system of an instance.
///
/// Use:     const config::Config config = …;  return InstanceControl(config).start();
/// Errors:  each returns the exit status, after standard error says what is wrong: EX_UNAVAILABLE (it runs already,
///          or does not run), EX_CONFIG, EX_NOPERM, EX_TEMPFAIL (it takes longer), EX_OSERR, or what master ended
///          with.
#include <string>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/config.h"

namespace pen::tools {

class InstanceControl {
 public:
  /// config must outlive this.
  explicit InstanceControl(const config::Config& config) : config_(config) {}
  /// In the background; returns when it serves.
  int start();
  /// This process becomes master; returns only when it cannot.
  int start_foreground();
  int stop();
  int abort();
  int reload();
  int flush();

 private:
  /// Runs master and waits for its word; the text it reports is empty when it died without one.
  int run_master();
  /// Sends the signal to master; with a time, waits until it has ended.
  int signal_master(int signo, const char* done, milliseconds patience);
  const config::Config& config_;
};

/// Prints "penstock: text" to standard error; returns the status.
int fail_with(int status, const std::string& text);
/// For a command that needs to know whether the mail system runs.
int cannot_tell(const Error& why);

}  // namespace pen::tools
