#pragma once
/// The workers of this process (worker.h): one for each account that there is work for.
///
/// Use:     auto worker = workforce().give(role, job_socket, keep);  …;  workforce().done(worker);  or
///          .dismiss(worker) if (workforce().visit(role)) { …a postman (postmen.h) delivers…; workforce().left(role);
///          }
/// Bounds:  kMostIdle workers without a job; those that had their last job longest ago go first. They go by
///          themselves too.
/// Thread:  any number at once.
/// Errors:  errno of what could not be made.
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/mailbox/worker.h"

namespace pen::mailbox {

class Workforce {
 public:
  static constexpr std::size_t kMostIdle = 64;
  struct Worker {
    std::string role;  // as encoded; empty: nobody else's jobs go to it
    Fd control;
    std::size_t jobs = 0;
    bool alone = true;  // with its first job, and sees no other until that is done
    std::uint64_t last_used = 0;
  };
  using Handle = std::shared_ptr<Worker>;

  /// Brings the job to the worker of that role, a new one if there is none. shared: others may have it too.
  Result<Handle> give(const Role& role, int job_socket, bool shared);
  void done(const Handle& worker);
  /// Whether a postman may make the next delivery of the role's account: it has no worker, and no postman is there.
  /// What comes at the same time goes to a worker, in which deliveries share locks and syncs.
  bool visit(const Role& role);
  void left(const Role& role);
  /// It does not answer: no more jobs go to it, and it ends when it can.
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
