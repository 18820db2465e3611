#pragma once
/// Makes the workers of a delivery agent: a small process without threads that only forks. A fork copies the memory of
/// a process, which is little here, and much in a program with tables, connections and threads.
///
/// Use:     Nursery::start_early();                        // first thing in main(), while there is nothing to copy
///          auto control = Nursery::instance().hire(role); // from any thread
/// Ahead:   after the first hire, kAhead processes wait for the next roles; unused ones end after a while (kIdle).
/// End:     it ends with the process that started it. If it has ended before, the next hire() starts another.
/// Errors:  errno of fork and of sockets. If a worker cannot be forked, its control socket is closed.
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
  /// Without this call the first hire() starts the process, which costs more.
  static void start_early() { (void)instance().started(); }
  /// Returns the control socket of a new worker.
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
