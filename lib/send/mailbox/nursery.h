#pragma once
/// The program's side of the helper (helper.h), which makes its workers and postmen: a small process that only forks. A
/// fork copies the memory of a process, which is little there, and much in a program with tables, connections and
/// threads.
///
/// Use:     PEN_TRY(Nursery::instance().start(policy, socket));  // as root, before any thread
///          … the program gives up root's rights …
///          auto control = Nursery::instance().hire(role);                // from any thread
///          auto control = Nursery::instance().serve(connection);         // spawn
/// Ahead:   after the first hire, kAhead processes wait for the next roles; unused ones end after a while (kIdle).
/// End:     if the helper ends before the program, the socket shows it, and no process can be hired any more: the
///          program has no right to start another helper.
/// Tests:   without start() the first hire() forks a helper that is any account but root, or has the policy of use();
///          and another when it has died.
/// Errors:  of start(): errno; the helper is not there. Of hire() and serve(): errno of sockets; EPERM with the
///          reason: the policy refuses the request. If a worker cannot be forked, its control socket is closed.
#include <sys/types.h>

#include <deque>
#include <mutex>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/policy.h"
#include "lib/send/mailbox/worker.h"

namespace pen::mailbox {

class Nursery {
 public:
  static Nursery& instance();
  /// socket: the program's to the helper, of which a copy is made.
  Result<void> start(const Policy& policy, int socket);
  /// Whether the helper is root, so that deliveries can be made as other accounts.
  bool becomes() const { return becomes_; }
  /// Returns the control socket of a new worker.
  Result<Fd> hire(const Role& role);
  /// Hands the connection to a new process that runs the policy's command for it (connection.h); ours may be closed
  /// then. Returns the control socket: the command's end is reported there, and the command ends with it. EAGAIN: the
  /// helper has more requests than it may fulfil now.
  Result<Fd> serve(int connection);
  /// For tests: the policy of the next helper, which is forked from this process.
  void use(Policy policy);

 private:
  Nursery();
  Result<void> started();
  Result<Fd> make(Full full);
  Result<Request> request_for(const Role& role) const;
  Result<Fd> ask(const Request& request, int connection);
  std::mutex mutex_;
  std::deque<Fd> ahead_;  // control sockets
  Fd socket_;
  pid_t pid_ = -1;
  Policy policy_;
  bool apart_ = false;  // started by start(), once
  bool becomes_ = false;
};

}  // namespace pen::mailbox
