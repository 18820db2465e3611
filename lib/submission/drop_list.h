#pragma once
/// What lies in $queue_directory/maildrop: its names for pickup, its messages for whoever lists them.
///
/// Use:     DropNames names(directory);
///          for (auto some = names.next(1000); some && !some->empty(); some = names.next(1000)) …
///          auto message = look_at_drop(directory, name);          // nullopt: nothing there, or not finished
/// Reads only: takes no lock, so that pickup and pendrop never wait for a listing and never take it for the other.
/// Bounds:  names of one call; of a file its envelope (kMaxEnvelope) and its ends: content is not read, so a checksum
///          that does not fit shows when the message is taken.
/// Thread:  one at a time. Blocks.
#include <dirent.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/submission/format.h"

namespace pen::submission {

/// The names in a directory, some at a time, so that a pass costs no memory however many there are. None begins with a
/// dot.
class DropNames {
 public:
  explicit DropNames(const std::string& directory);
  ~DropNames();
  DropNames(const DropNames&) = delete;
  DropNames& operator=(const DropNames&) = delete;
  /// At most that many, each call's in order; queue ids begin with the time. Empty: that was all. Errors: errno.
  Result<std::vector<std::string>> next(std::size_t most);

 private:
  std::string directory_;
  DIR* dir_;
  int error_;
};

struct Dropped {
  std::string name;
  std::uint64_t size = 0;  // of the content; of the file where that is not known
  WallTime arrival{};      // when it was submitted; the file's time where that is not known
  /// nullopt: it cannot be read.
  std::optional<Submission> submission;
  std::string fault;  // what is not as pendrop leaves it; empty: nothing that shows without reading the content
};
/// nullopt: no such file, its writer has not finished, or a name that leads elsewhere. Errors: errno.
Result<std::optional<Dropped>> look_at_drop(const std::string& directory, const std::string& name);

}  // namespace pen::submission
