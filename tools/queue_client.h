#pragma once
/// What the queue tools share: the conversation "queue" with qmgr, and what its answers mean for the exit status.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/loop.h"
#include "lib/config/config.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/queue.h"
#include "tools/offline_qmgr.h"
#include "tools/output.h"

namespace pen::tools {

using QueueChannel = ipc::Channel<ipc::queue::FromQmgr, ipc::queue::ToQmgr>;

/// For a command that is installed setgid $setgid_group, so that users reach the queue manager's socket: from here on
/// that group counts only while QueueClient connects; files are read as the user. First thing in main; without effect
/// where the command is not setgid. Ends the program (EX_OSERR) if it cannot be.
void keep_group_for_the_socket(const char* program);

/// Of one conversation with qmgr that broke: whether the request is put to its successor. A reload replaces qmgr, and
/// what its tools had asked is cut off. Listings are asked for again while nothing of them was seen; orders mean the
/// same when they are given twice, but the second answer counts only what the first giving left, which is said on
/// standard error.
class Persistence {
 public:
  /// order: the request changes something.
  Persistence(std::string program, bool order) : program_(std::move(program)), order_(order) {}
  /// A part of the answer has come: asked again, it would come twice.
  void answered() { answered_ = true; }
  /// Whether to ask again, after this end of the conversation; at most a few times, as a queue manager that dies of the
  /// request would do so for ever.
  bool again(const Error& error);

 private:
  std::string program_;
  bool order_;
  bool answered_ = false;
  int times_ = 0;
};

/// One request: sends it and calls see() for every answer until Done, which is returned. While the mail system is
/// down a queue manager is started for it (offline_qmgr.h), where the caller may have that. Ends the program with
/// EX_UNAVAILABLE when the queue manager cannot be reached or goes away, or when what is asked for needs a mail
/// system that runs.
class QueueClient {
 public:
  /// config must outlive the client.
  QueueClient(std::string program, const config::Config& config);
  using See = std::function<void(ipc::queue::FromQmgr&, std::vector<Fd>&)>;
  ipc::queue::Done ask(const ipc::queue::ToQmgr& request, const See& see);

 private:
  async::Task<void> converse(async::Loop& loop, const ipc::queue::ToQmgr& request, const See& see,
                             ipc::queue::Done& done);
  /// Over path_; or, where nobody listens, with a queue manager of our own, which `own` is then. Ends the program where
  /// neither is to be had.
  async::Task<QueueChannel> reach(async::Loop& loop, const ipc::queue::ToQmgr& request,
                                  std::optional<OfflineQmgr>& own);

  std::string program_, path_;
  const config::Config& config_;
};

/// Ends the program with the exit code for a request that was refused or failed.
void expect_ok(const std::string& program, const ipc::queue::Done& done);

}  // namespace pen::tools
