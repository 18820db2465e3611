#pragma once
/// Which configuration directories of a stranger's choice are trusted by a program with more rights than the user
/// (pendrop, setgid).
///
/// Rule:    the directory and its main.cf belong to root and only root can write them, and the mail system whose
///          queue_directory it names was started with this very directory. Any other main.cf of root's (as shipped, of
///          an instance that is gone, of another mail system) could permit what the instance's own forbids its users.
/// Record:  $queue_directory/config_directory, a symbolic link that master makes at every start (master/sockets.h).
///          The queue directory belongs to root, and so does the link.
/// Races:   the path of the directory is walked once. Its main.cf is read through the checked descriptor, and paths
///          relative to it ($config_directory) begin where the record says.
#include "lib/config/config.h"

namespace pen::config {

/// The name of the record in queue_directory.
inline constexpr const char* kRecord = "config_directory";

enum class TrustError { not_trusted = 1, no_record };
inline std::string_view error_module(TrustError) { return "configuration"; }
inline std::string_view describe(TrustError e) {
  return e == TrustError::no_record ? "the mail system has not been started yet" : "not used for you";
}

/// Errors: not_trusted; no_record; otherwise those of load(). master.cf is not read.
Result<Config> load_trusted(const std::string& directory);

}  // namespace pen::config
