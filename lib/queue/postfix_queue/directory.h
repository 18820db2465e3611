#pragma once
/// The queue directory of a Postfix that is stopped: which messages there are, and their bytes.
///
/// Use:     auto queue = QueueDirectory::open("/var/spool/postfix");       // in_use: Postfix runs
///          auto list = queue->list();                                      // by queue, then by id
///          auto bytes = queue->load((*list)[0]);
/// Owns:    Postfix's lock on pid/master.pid: while the object lives Postfix does not start. Nothing is written, but by
///          remove().
/// Rights:  each file is found by the names of its directories, one by one, and no link is followed: what Postfix's
///          account made of them leads root to nothing else (lib/base/folder.h).
/// Errors:  DirectoryError; errno of the file calls; load(): FileError::too_large.
/// Bounds:  kMost names; a file in memory at a time, which the caller holds.
/// Thread:  one at a time. Blocks.
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/folder.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/queue/postfix_queue/queue_file.h"

namespace pen::postfix_queue {

enum class DirectoryError {
  not_a_queue = 1,  // holds none of Postfix's directories
  in_use,           // Postfix runs with it
  too_many,
};
std::string_view error_module(DirectoryError);
std::string_view describe(DirectoryError);

enum class Queue : std::uint8_t { maildrop, incoming, active, deferred, hold };
inline constexpr std::string_view kQueueNames[] = {"maildrop", "incoming", "active", "deferred", "hold"};
inline std::string_view name_of(Queue queue) { return kQueueNames[static_cast<std::size_t>(queue)]; }

struct Found {
  Queue queue = Queue::incoming;
  std::string id;    // the file's name
  std::string path;  // below the queue directory
  uid_t uid = 0;
  std::uint64_t size = 0;
  WallTime changed{};
  bool whole = false;  // its writer has finished it
};

class QueueDirectory {
 public:
  static constexpr std::size_t kMost = 10'000'000;
  static Result<QueueDirectory> open(const std::string& path);

  const std::string& path() const { return folder_.path(); }
  /// Regular files with names of queue ids; others are passed over.
  Result<std::vector<Found>> list() const;
  Result<std::string> load(const Found& found) const;
  /// The reasons why its recipients wait; none where nothing is known.
  std::vector<Reason> reasons(const Found& found) const;
  /// Takes away the message, and what is written about it in defer/, bounce/ and trace/. A message that is gone is no
  /// error.
  Result<void> remove(const Found& found) const;
  /// The files below a directory, "corrupt" or "saved", which belong to no queue.
  std::size_t count(const std::string& name) const;

 private:
  QueueDirectory(Folder folder, Fd lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  Folder folder_;
  Fd lock_;
};

}  // namespace pen::postfix_queue
