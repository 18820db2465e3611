#pragma once
/// Deliveries of one process's threads that go into the same mailbox at the same time: an mbox is locked and synced
/// once for many, a directory of a Maildir is synced once for many. Blocking.
///
/// Order:   in an mbox, that of the calls.
/// Bounds:  kMost messages at one lock, so that readers of the mailbox get their turn.
/// Thread:  any. Who comes while others are at it waits for them as he would for their lock.
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lib/mailbox/store.h"

namespace pen::mailbox {

class Groups {
 public:
  static constexpr std::size_t kMost = 64;
  /// As mailbox::store().
  mail::DeliveryStatus store(const Target& target, const Message& message, const Content& content,
                             const CalledOff& called_off);
  /// fsync() of a directory: by one that begins after the call, and may be another caller's.
  Result<void> sync_directory(int fd);

 private:
  struct Waiting {
    MboxDelivery delivery;
    bool done = false;
  };
  struct Line {  // before an mbox
    std::deque<Waiting*> waiting;
    bool busy = false;
    std::condition_variable moved;
  };
  struct Directory {
    std::uint64_t wanted = 0, synced = 0;  // calls: made, and behind us
    bool busy = false;
    std::condition_variable moved;
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Line>> lines_;
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<Directory>> directories_;
};

}  // namespace pen::mailbox
