#pragma once
/// Whether this program reads the queue in a directory: asked before a program of another version takes its place.
///
/// Reads:   the header of each segment and both copies of the positions, without the lock: another process may write.
/// Errors:  other_version, with the file and both versions; errno. A directory that is not there yet is no error.
/// Thread:  any.
#include <string>

#include "lib/base/result.h"

namespace pen::queue_log {

Result<void> check_versions(const std::string& directory);

}  // namespace pen::queue_log
