#pragma once
/// Maildrop as the queue's tools see it: what was submitted and pickup has not taken yet.
///
/// Use:     Maildrop maildrop(pool, queue_directory + "/maildrop", keeper);
///          co_await maildrop.each({}, [](const submission::Dropped& d) -> async::Task<bool> { … });
///          co_await maildrop.remove(name);
/// Rules:   files being written are left out; those that are no message come with their fault. Looking takes no lock;
///          what is removed is removed under the lock of pickup and pendrop, so that no message is taken and deleted.
/// Keeper:  maildrop belongs to mail_owner. Where qmgr has an account of its own, maildrop_keeper.h looks there for it.
/// Bounds:  some files and some megabytes of envelopes at once, whatever lies there. File calls run on the pool.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/receive/submission/drop_list.h"
#include "qmgr/maildrop_keeper.h"

namespace pen::qmgr {

class Maildrop {
 public:
  /// The pool must outlive it. keeper: nullptr where this process may do what the keeper may.
  Maildrop(async::HandlerPool& pool, std::string directory, std::shared_ptr<MaildropKeeper> keeper)
      : pool_(pool), directory_(std::move(directory)), keeper_(std::move(keeper)) {}
  /// false from it: enough.
  using See = std::function<async::Task<bool>(const submission::Dropped&)>;
  /// names: only these; empty: all. Errors: errno of the directory.
  async::Task<Result<void>> each(std::vector<std::string> names, See see) const;
  using Removed = submission::DropRemoved;
  async::Task<Result<Removed>> remove(std::string name) const;

 private:
  async::HandlerPool& pool_;
  std::string directory_;
  std::shared_ptr<MaildropKeeper> keeper_;
};

}  // namespace pen::qmgr
