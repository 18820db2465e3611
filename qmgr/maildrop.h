#pragma once
/// Maildrop as the queue's tools see it: what was submitted and pickup has not taken yet.
///
/// Use:     Maildrop maildrop(pool, queue_directory + "/maildrop");
///          co_await maildrop.each({}, [](const submission::Dropped& d) -> async::Task<bool> { … });
///          co_await maildrop.remove(name);
/// Rules:   files being written are left out; those that are no message come with their fault. Looking takes no lock;
///          what is removed is removed under the lock of pickup and pendrop, so that no message is taken and deleted.
/// Bounds:  some files and some megabytes of envelopes at once, whatever lies there. File calls run on the pool.
/// Thread:  the loop's.
#include <functional>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/submission/drop_list.h"

namespace pen::qmgr {

class Maildrop {
 public:
  /// The pool must outlive it.
  Maildrop(async::HandlerPool& pool, std::string directory) : pool_(pool), directory_(std::move(directory)) {}
  /// false from it: enough.
  using See = std::function<async::Task<bool>(const submission::Dropped&)>;
  /// names: only these; empty: all. Errors: errno of the directory.
  async::Task<Result<void>> each(std::vector<std::string> names, See see) const;
  enum class Removed {
    yes,
    gone,  // it is not there, or its writer died, which pickup settles
    busy,  // somebody writes it, or takes it into the queue
  };
  async::Task<Result<Removed>> remove(std::string name) const;

 private:
  async::HandlerPool& pool_;
  std::string directory_;
};

}  // namespace pen::qmgr
