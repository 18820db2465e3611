#pragma once
/// Makes the workers of a delivery agent: a small process without threads that does nothing but fork. A fork copies
/// what a process has in memory, which is little here, and much in a program that has tables, connections and
/// threads.
///
/// Use:     Nursery::start_early();                        // first thing in main(): there is nothing to copy yet
///          auto control = Nursery::instance().hire(role); // from any thread
/// Ahead:   once one was hired, kAhead processes wait for the roles of the next; unused they end after a while (kIdle).
/// End:     of the process that started it ends it too. When it has ended before that, the next hire() starts another.
/// Errors:  errno of fork and of sockets. A worker that cannot be forked shows as a control socket that is closed.
#include <sys/types.h>

#include <deque>
#include <mutex>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/mailbox/worker.h"

namespace pen::mailbox {

class Nursery {
 public:
  static Nursery& instance();
  /// Without it the first hire() starts it, which costs more.
  static void start_early() { (void)instance().started(); }
  /// The control socket of a new worker.
  Result<Fd> hire(const Role& role);

 private:
  static constexpr std::size_t kAhead = 4;
  Result<void> started();
  Result<Fd> make();
  std::mutex mutex_;
  std::deque<Fd> ahead_;  // control sockets
  Fd socket_;
  pid_t pid_ = -1;
};

}  // namespace pen::mailbox
