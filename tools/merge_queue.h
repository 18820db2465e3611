#pragma once
/// penstock restore --merge: adds the messages of a snapshot to the queue of an instance, each once.
///
/// Use:     return MergeQueue(config, snapshot_directory).run();
/// Order:   the snapshot's queue is copied beside ours, and a queue manager of its own reads it there. Its messages are
///          handed in on hold, under their ids; one with an id that is in our queue is there already. When all are in,
///          that is written down in the snapshot ("merged"); then those are released that were not on hold. A message
///          on hold does not leave by itself, so a repeat after a crash finds by its id what is done.
/// Kept:    sender, recipients that are left, arrival, content, notifications. Not: how often a message was tried.
/// Left:    messages with a failure that is still to be reported to the sender, and damaged ones: named, and the
///          status says so.
/// Rights:  root and mail_owner. The mail system may run or not.
/// Errors:  run() reports them. EX_OK, EX_DATAERR (something was left), EX_TEMPFAIL (repeat), EX_CANTCREAT.
/// Thread:  one. Blocks.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/ipc/queue.h"
#include "tools/file_copy.h"
#include "tools/hand_in.h"
#include "tools/queue_client.h"
#include "tools/waiting_message.h"

namespace pen::tools {

class MergeQueue {
 public:
  MergeQueue(const config::Config& config, std::string snapshot);
  int run();

 private:
  /// An instance around a copy of the snapshot's queue, that nothing else knows of.
  Result<config::Config> borrow();
  Result<void> list(QueueClient& other);
  /// Hands these in; what is not taken is left.
  Result<void> take(QueueClient& other, const std::vector<std::string>& ids);
  Result<void> take_dropped();
  /// Writes down in the snapshot that all of it is handed in.
  Result<void> mark();
  Result<void> release(const std::vector<std::string>& ids, bool repeat);
  std::map<std::string, ipc::queue::Place> places(std::vector<std::string> ids);
  void leave(const std::string& id, const std::string& why);

  const config::Config& config_;
  std::string snapshot_;
  std::optional<CopyTarget> destination_;  // of that instance
  QueueClient client_;
  std::map<std::string, WaitingMessage> listed_;
  std::uint64_t taken_ = 0, there_ = 0, left_ = 0, dropped_ = 0;
};

}  // namespace pen::tools
