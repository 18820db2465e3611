#pragma once
/// Groups deliveries of one process's threads into the same mailbox at the same time: an mbox is locked and synced
/// once for many, a directory of a Maildir is synced once for many. Blocks.
///
/// Order:   in an mbox, the order of the calls.
/// Bounds:  kMost messages under one lock, so that readers of the mailbox get their turn.
/// Thread:  any. A later caller waits for the present ones as it would wait for their lock.
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lib/send/mailbox/store.h"

namespace pen::mailbox {

class Groups {
 public:
  static constexpr std::size_t kMost = 64;
  /// As mailbox::store().
  mail::DeliveryStatus store(const Target& target, const Message& message, const Content& content,
                             const CalledOff& called_off);
  /// fsync() of a directory: by a sync that begins after the call, perhaps another caller's.
  Result<void> sync_directory(int fd);

 private:
  struct Waiting {
    MboxDelivery delivery;
    bool done = false;
  };
  struct Line {  // callers waiting for an mbox
    std::deque<Waiting*> waiting;
    bool busy = false;
    std::condition_variable moved;
  };
  struct Directory {
    std::uint64_t wanted = 0, synced = 0;  // number of calls: requested, and covered by a sync
    bool busy = false;
    std::condition_variable moved;
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Line>> lines_;
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<Directory>> directories_;
};

}  // namespace pen::mailbox
