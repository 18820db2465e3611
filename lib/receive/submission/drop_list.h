#pragma once
/// The content of $queue_directory/maildrop: file names for pickup, messages for listings.
///
/// Use:     DropNames names(directory);
///          for (auto some = names.next(1000); some && !some->empty(); some = names.next(1000)) …
///          auto message = look_at_drop(directory, name);          // nullopt: not there, or not finished
/// Reads only, without locks: pickup and pendrop never wait for a listing, and never take one for each other.
/// Bounds:  names of one call; of each file its envelope (kMaxEnvelope) and its trailer. Content is not read, so a
///          wrong checksum is found only when the message is taken.
/// Thread:  one at a time. Blocks.
#include <dirent.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/receive/submission/format.h"

namespace pen::submission {

/// The names in a directory, some at a time, so that a pass needs little memory however many there are. Names that
/// begin with a dot are left out.
class DropNames {
 public:
  explicit DropNames(const std::string& directory);
  /// Of a directory that somebody else has opened. shown: its name, for errors.
  DropNames(Fd directory, std::string shown);
  ~DropNames();
  DropNames(const DropNames&) = delete;
  DropNames& operator=(const DropNames&) = delete;
  /// At most this many names, sorted within a call; queue ids begin with the time. Empty: there are no more. Errors:
  /// errno.
  Result<std::vector<std::string>> next(std::size_t most);

 private:
  std::string directory_;
  DIR* dir_;
  int error_;
};

struct Dropped {
  std::string name;
  std::uint64_t size = 0;  // of the content or, if unknown, of the file
  WallTime arrival{};      // when it was submitted or, if unknown, the file's time
  /// nullopt: the envelope cannot be read.
  std::optional<Submission> submission;
  std::string fault;  // a deviation from what pendrop writes; empty: none that shows without reading the content
};
/// nullopt: no such file, an unfinished one, or a name that leads elsewhere. Errors: errno.
Result<std::optional<Dropped>> look_at_drop(const std::string& directory, const std::string& name);

/// The two halves of that, for two processes that share the work: the one that may reach the directory opens the
/// file, and the one that wants to know looks into it.
struct DropEntry {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // unix seconds
  bool regular = false;
  int error = 0;  // errno of the opening
  Fd file;        // of a regular file without error
};
Result<std::optional<DropEntry>> open_drop(const std::string& directory, const std::string& name);
Dropped look_at_drop(const std::string& name, const DropEntry& entry);

}  // namespace pen::submission
