#pragma once
/// Signals the end of the conversation with qmgr that a delivery belongs to. Nobody will record the result of the
/// delivery then: the next queue manager repeats it.
///
/// Use:     auto ending = Ending::make();  …  poll(ending->fd(), POLLIN)   or   ending->has_come()
/// Thread:  any.
/// Errors:  make(): errno of eventfd.
#include <atomic>
#include <memory>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::delivery {

class Ending {
 public:
  static Result<std::shared_ptr<Ending>> make();
  /// Signals the end, for good.
  void come();
  bool has_come() const { return come_.load(std::memory_order_acquire); }
  /// Readable after the end.
  int fd() const { return event_.get(); }

 private:
  explicit Ending(Fd event) : event_(std::move(event)) {}
  Fd event_;
  std::atomic<bool> come_{false};
};

}  // namespace pen::delivery
