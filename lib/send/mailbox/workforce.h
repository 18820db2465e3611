#pragma once
/// The workers of this process (worker.h): one for each account that has work.
///
/// Use:     auto worker = workforce().give(role, job_socket, shared);  …
///          workforce().done(worker);                    // or dismiss(worker)
///          if (workforce().visit(role)) { …a postman (postmen.h) delivers…; workforce().left(role); }
/// Bounds:  kMostIdle workers without a job; the one that had no job for the longest time goes first. Idle workers
///          also end by themselves.
/// Thread:  any number at once.
/// Errors:  errno of making a socket or process.
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/send/mailbox/worker.h"

namespace pen::mailbox {

class Workforce {
 public:
  static constexpr std::size_t kMostIdle = 64;
  struct Worker {
    std::string role;  // encoded; empty: gets no other jobs
    Fd control;
    std::size_t jobs = 0;
    bool alone = true;  // busy with its first job; looks at no other until that is done
    std::uint64_t last_used = 0;
  };
  using Handle = std::shared_ptr<Worker>;

  /// Passes the job to the worker of that role; makes one if there is none. shared: the worker may get other jobs too.
  Result<Handle> give(const Role& role, int job_socket, bool shared);
  void done(const Handle& worker);
  /// Whether a postman may make the next delivery for the role's account: it has neither a worker nor a visiting
  /// postman. Simultaneous deliveries go to a worker, because there they share locks and syncs.
  bool visit(const Role& role);
  void left(const Role& role);
  /// The worker does not answer: it gets no more jobs, and ends when it can.
  void dismiss(const Handle& worker);

 private:
  void forget(const Handle& worker);
  std::mutex mutex_;
  std::map<std::string, Handle> workers_;
  std::set<std::string> visited_;         // roles
  std::map<std::uint64_t, Handle> idle_;  // by last_used
  std::uint64_t uses_ = 0;
};

Workforce& workforce();

}  // namespace pen::mailbox
