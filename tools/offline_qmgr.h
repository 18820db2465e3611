#pragma once
/// A queue manager for one tool, while the mail system is down: the one program that knows the queue's files, started
/// with one connection and told to carry out orders only.
///
/// Use:     if (auto why = OfflineQmgr::refusal(config)) … say why->text, end with why->code
///          auto qmgr = OfflineQmgr::start(config);
///          … converse over qmgr->connection() …                    // it broke: qmgr->failure() says why
///          qmgr->finish();                                         // after this the queue is free for others
/// Rights:  it runs as mail_owner, as under master; the tool must be root's or the owner's.
/// Beside:  it takes the queue's lock, as any queue manager does. So the suite, started meanwhile, waits for it: its
///          own queue manager for some seconds, then master starts that one again and again.
/// Ends:    with finish(); with the tool, however that ends, and then nothing is lost that was answered for.
/// Thread:  of a process that has no other.
#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/config/config.h"

namespace pen::tools {

class OfflineQmgr {
 public:
  struct Refusal {
    int code;  // of sysexits.h
    std::string text;
  };
  /// Why nobody may be started: a master runs, the caller may not, there is no queue. nullopt: start() may be tried.
  static std::optional<Refusal> refusal(const config::Config& config);
  /// Errors: errno. Whether the program could work on the queue shows by its answer.
  static Result<OfflineQmgr> start(const config::Config& config);
  OfflineQmgr(OfflineQmgr&&) noexcept = default;
  OfflineQmgr& operator=(OfflineQmgr&&) noexcept = default;

  /// For the conversation "queue"; once.
  Fd connection() { return std::move(connection_); }
  /// Why it ended before it was told to, a sentence part. Waits for its end.
  std::string failure();
  /// The connection is closed: it writes what is in memory, and ends.
  void finish();

 private:
  OfflineQmgr(std::string path, pid_t pid, Fd status, Fd connection)
      : path_(std::move(path)), pid_(pid), status_(std::move(status)), connection_(std::move(connection)) {}
  /// What it said over the status socket until it ended, and how it ended.
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
