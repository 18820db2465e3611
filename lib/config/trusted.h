#pragma once
/// The configuration that a stranger names to a program with more rights than his own (pendrop, setgid): which of
/// them it obeys.
///
/// Rule:    the directory and its main.cf belong to root and nobody else may write them; and the mail system whose
///          queue_directory it names was started with this very directory. Another main.cf of root's, as shipped, of an
///          instance that is gone or of another mail system, would lift what the instance's own forbids its users.
/// Record:  $queue_directory/config_directory, a symbolic link that master makes at every start (master/sockets.h). The
///          queue directory is root's, so the link is.
/// Races:   the directory is walked to once; its main.cf is read through the descriptor that was looked at, and what is
///          relative to it ($config_directory) begins where the record says.
#include "lib/config/config.h"

namespace pen::config {

/// The name of the record in queue_directory.
inline constexpr const char* kRecord = "config_directory";

enum class TrustError { not_trusted = 1, no_record };
inline std::string_view error_module(TrustError) { return "configuration"; }
inline std::string_view describe(TrustError e) {
  return e == TrustError::no_record ? "the mail system has not been started yet" : "not used for you";
}

/// Errors: not_trusted; no_record; otherwise those of load(). No master.cf is read.
Result<Config> load_trusted(const std::string& directory);

}  // namespace pen::config
