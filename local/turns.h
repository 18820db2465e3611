#pragma once
/// Gives each user or alias a share of a thread pool. If a home directory, command or list hangs, by whatever address
/// its mail comes, the mail of others continues.
///
/// Use:     if (!co_await turns.take(user, until)) …later…;  …deliver…;  turns.give(user);
/// Bounds:  `each` turns of one user at once; a waiting delivery holds no thread.
/// Thread:  the loop's.
#include <map>
#include <memory>
#include <string>

#include "lib/base/async/sync.h"

namespace pen::local {

class Turns {
 public:
  Turns(async::Loop& loop, std::size_t each) : loop_(loop), each_(each) {}

  /// False: no turn became free in time.
  async::Task<bool> take(std::string user, async::Until until) {
    auto& entry = users_[user];
    if (!entry) entry = std::make_shared<async::Semaphore>(loop_, each_);
    const auto turns = entry;
    co_return (co_await turns->acquire(until)).has_value();
  }
  /// Returns a turn.
  void give(const std::string& user) {
    const auto entry = users_.find(user);
    entry->second->release();
    if (entry->second->free() == each_) users_.erase(entry);
  }

 private:
  async::Loop& loop_;
  std::size_t each_;
  std::map<std::string, std::shared_ptr<async::Semaphore>> users_;  // users with a turn taken
};

}  // namespace pen::local
