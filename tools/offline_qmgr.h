#pragma once
/// Runs a queue manager for one tool while the mail system is down. Only qmgr knows the queue's files; it is started
/// with one connection and carries out orders only.
///
/// Use:     if (auto why = OfflineQmgr::refusal(config)) … report why->text, end with why->code
///          auto qmgr = OfflineQmgr::start(config);
///          … converse over qmgr->connection() …                    // it broke: qmgr->failure() has the reason
///          qmgr->finish();                                         // afterwards the queue is free for others
/// Rights:  it runs as the owner of the queue, as it does under master; the tool must run as root or as that account.
/// Beside:  it takes the queue's lock, as any queue manager does. A suite that is started meanwhile waits: its own
///          queue manager for some seconds, then master starts that one again and again.
/// Ends:    by finish(), or with the tool, however that ends. What it has answered for is never lost.
/// Thread:  for a process with one thread.
#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/config/config.h"

namespace pen::tools {

class OfflineQmgr {
 public:
  struct Refusal {
    int code;  // an exit code of sysexits.h
    std::string text;
  };
  /// Why it cannot be started: a master runs, or programs or a keeper without one; the caller lacks the rights; there
  /// is no queue. nullopt: call start().
  static std::optional<Refusal> refusal(const config::Config& config);
  /// Whether the queue belongs to the caller.
  static bool owns_queue(const config::Config& config);
  /// Errors: errno. Its first answer shows whether it could open the queue.
  static Result<OfflineQmgr> start(const config::Config& config);
  OfflineQmgr(OfflineQmgr&&) noexcept = default;
  OfflineQmgr& operator=(OfflineQmgr&&) noexcept = default;

  /// For the conversation "queue" or "enqueue"; call it once. A message that is handed in on hold is on hold at the end
  /// of the process; another one waits in the journal for the next start.
  Fd connection() { return std::move(connection_); }
  /// Waits for its end. Returns the reason why it ended too early, as part of a sentence.
  std::string failure();
  /// Call it after the connection is closed: qmgr writes what is in memory, and ends.
  void finish();

 private:
  OfflineQmgr(std::string path, pid_t pid, Fd status, Fd connection)
      : path_(std::move(path)), pid_(pid), status_(std::move(status)), connection_(std::move(connection)) {}
  /// Its last words on the status socket, and its exit status.
  struct End {
    std::string word;
    int status = 0;  // of waitpid()
  };
  End wait();

  std::string path_;
  pid_t pid_;
  Fd status_, connection_;
};

}  // namespace pen::tools
