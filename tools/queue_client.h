#pragma once
/// The common part of the queue tools: the conversation "queue" with qmgr, and exit statuses for its answers.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/config/config.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/queue.h"
#include "tools/offline_qmgr.h"
#include "tools/output.h"

namespace pen::tools {

using QueueChannel = ipc::Channel<ipc::queue::FromQmgr, ipc::queue::ToQmgr>;

/// For a command that is installed setgid $setgid_group so that users can reach the queue manager's socket: from here
/// on the group is active only while QueueClient connects, and files are read as the user. Call it first in main; it
/// has no effect if the command is not setgid. Ends the program (EX_OSERR) on failure.
void keep_group_for_the_socket(const char* program);

/// A queue manager that lives greets within moments, a successor when it has read the state of its log. One that has
/// not by then hangs, or cannot live.
inline constexpr seconds kGreets{10};
/// The end of a sentence about it.
std::string not_greeted();

/// Connects to the queue manager's socket, with that group. Errors: timed_out after kGreets.
async::Task<Result<QueueChannel>> connect_to_queue(const std::string& program, async::Loop& loop,
                                                   const std::string& path);

/// Decides whether a request is repeated after its conversation with qmgr broke: a reload replaces qmgr and cuts off
/// its tools. A listing is repeated only if nothing of it was printed. An order may be given twice without harm, but
/// the second answer counts only what the first left undone, which standard error then says.
class Persistence {
 public:
  /// order: the request changes something.
  Persistence(std::string program, bool order) : program_(std::move(program)), order_(order) {}
  /// Notes that a part of the answer has come: repeating the request would print it twice.
  void answered() { answered_ = true; }
  /// Whether to repeat the request after this error; a few times at most, because a request that kills the queue
  /// manager would kill every successor.
  bool again(const Error& error);

 private:
  std::string program_;
  bool order_;
  bool answered_ = false;
  int times_ = 0;
};

/// Sends one request and calls see() for every answer until Done, which is returned. While the mail system is down,
/// starts a queue manager for it (offline_qmgr.h) if the caller has the rights. Ends the program with EX_UNAVAILABLE
/// if the queue manager cannot be reached or goes away, or if the request needs a running mail system.
class QueueClient {
 public:
  /// config must outlive the client.
  QueueClient(std::string program, const config::Config& config);
  using See = std::function<void(ipc::queue::FromQmgr&, std::vector<Fd>&)>;
  ipc::queue::Done ask(const ipc::queue::ToQmgr& request, const See& see);
  /// The same for several requests that belong together, in one conversation: answer() is called for each answer, Done
  /// too, and may return what is asked next. It ends with a Done after which nothing is asked.
  using Next = std::function<std::optional<ipc::queue::ToQmgr>(ipc::queue::FromQmgr&, std::vector<Fd>&)>;
  ipc::queue::Done converse(const ipc::queue::ToQmgr& first, const Next& answer);

 private:
  async::Task<void> hold_conversation(async::Loop& loop, const ipc::queue::ToQmgr& first, const Next& answer,
                                      ipc::queue::Done& done);
  /// Connects to path_ or, if nobody listens there, to a queue manager of our own, which is put into `own`. Ends the
  /// program if neither is possible.
  async::Task<QueueChannel> reach(async::Loop& loop, const ipc::queue::ToQmgr& request,
                                  std::optional<OfflineQmgr>& own);

  std::string program_, path_;
  const config::Config& config_;
};

/// Ends the program with the right exit code if a request was refused or failed.
void expect_ok(const std::string& program, const ipc::queue::Done& done);

}  // namespace pen::tools
