#pragma once
/// A process that looks into maildrop for a queue manager with an account of its own: what users submitted belongs to
/// mail_owner, which must not open the queue, and the queue manager must not open what is mail_owner's.
///
/// Use:     auto keeper = MaildropKeeper::start(directory, become);      // as root, before any thread
///          keeper->directory(), keeper->open(name), keeper->remove(name)
/// Form:    a request is one packet of fixed size, an order and a name; the answer is one, with a descriptor where one
///          was asked for. Names with a slash, and those that begin with a dot, are refused.
/// Owns:    the process. It ends when this one does.
/// Errors:  errno of what the keeper tried; EPIPE: it is gone; ETIMEDOUT: ten seconds have passed.
/// Thread:  start() in a process that has no other; the rest any.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/receive/submission/drop_file.h"
#include "lib/receive/submission/drop_list.h"

namespace pen::qmgr {

class MaildropKeeper {
 public:
  /// become: gives up all rights but those of mail_owner; an error ends the new process.
  static Result<std::shared_ptr<MaildropKeeper>> start(std::string directory,
                                                       const std::function<Result<void>()>& become);
  explicit MaildropKeeper(Fd socket);

  /// The directory itself, to list.
  Result<Fd> directory();
  /// As submission::open_drop().
  Result<std::optional<submission::DropEntry>> open(const std::string& name);
  Result<submission::DropRemoved> remove(const std::string& name);

 private:
  struct Answer;
  Result<Answer> ask(std::uint8_t order, const std::string& name);

  std::mutex mutex_;
  Fd socket_;
  std::uint64_t number_ = 0;
};

}  // namespace pen::qmgr
