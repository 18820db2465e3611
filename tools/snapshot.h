#pragma once
/// penstock snapshot DIR: a copy of an instance that can be started elsewhere, made while it runs or not.
/// docs/snapshot.md has the order in which things are copied, and why.
///
/// Use:     return Snapshot(config, directory).run();
/// Makes:   DIR/snapshot.json (what it is; written last), etc, log, spool, maildrop, data. It is made as
///          DIR.unfinished, and has its name when it is whole and synced.
/// Stopped: the queue manager that a tool starts for itself then (offline_qmgr.h) keeps others from the queue.
/// Rights:  root and mail_owner. Root reads what belongs to another account with that account's rights, and takes no
///          path from the queue manager (file_copy.h, lib/suite/service/as_account.h).
/// Errors:  run() reports them. EX_OK, EX_CANTCREAT, EX_NOPERM, EX_UNAVAILABLE, EX_IOERR, EX_TEMPFAIL (the disk of
///          the queue is full).
/// Thread:  one. Blocks.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/queue/queue_log/log_copy.h"
#include "lib/queue/queue_log/storage.h"
#include "lib/suite/ipc/queue.h"
#include "tools/file_copy.h"

namespace pen::tools {

class Snapshot {
 public:
  /// config must outlive it.
  Snapshot(const config::Config& config, std::string directory);
  int run();

 private:
  enum class Phase { begin, log, cut, files, thaw };
  /// What to do after an answer of the queue manager, and what to ask it next.
  Result<std::optional<ipc::queue::ToQmgr>> next(const ipc::queue::FromQmgr& answer);
  Result<ipc::queue::ToQmgr> copied(const ipc::queue::LogEnds& ends);
  Result<void> prepare();
  Result<void> copy_maildrop();
  Result<void> copy_configuration();
  Result<void> copy_data();
  Result<void> complete();

  /// Warns of what could not be read.
  void tell(const Copied& copied);

  const config::Config& config_;
  std::string directory_;
  std::optional<CopyTarget> destination_;  // of the snapshot
  std::optional<Folder> work_;             // where it is made
  std::optional<Folder> spool_;            // of the instance
  Phase phase_ = Phase::begin;
  std::unique_ptr<queue_log::Storage> source_, target_;
  std::optional<queue_log::LogCopy> log_;
  std::vector<std::string> files_;  // of the spool, to be copied: their names
  std::uint64_t bytes_ = 0, bodies_ = 0;
};

/// What is in snapshot.json.
struct SnapshotFacts {
  std::string host, config_directory, made;
  std::uint64_t bytes = 0;
};
/// Errors: a sentence, when the directory holds no whole snapshot.
Result<SnapshotFacts> read_snapshot(const std::string& directory);

}  // namespace pen::tools
