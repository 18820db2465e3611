#pragma once
/// Reads the figures at intervals and keeps their history on the disk.
///
/// Use:     Recorder recorder(server, path);  recorder.start();   recorder.history()
/// Disk:    an LMDB file of hints with one record for each range, written when a range has a new point. A damaged one
///          is set aside, a damaged record passed over, both with a line in the log; one that cannot be
///          written is logged once, and the history is in memory only. So it is while another process of penapi has it:
///          a second line of master.cf, or the one that drains after a reload.
/// Thread:  the loop's. It must outlive its task: it lives as long as the process.
#include <memory>
#include <string>

#include "lib/base/async/task.h"
#include "lib/base/fd.h"
#include "lib/base/lmdb/database.h"
#include "penapi/history.h"

namespace pen::api {

class Server;

class Recorder {
 public:
  /// path: the directory that the database is in; empty: none.
  Recorder(Server& server, std::string path);
  /// Takes up what the database has, and adds a reading again and again until the process drains.
  void start();
  const History& history() const { return history_; }

 private:
  static async::Task<void> record(Recorder* self);
  Result<void> take_up();
  Result<void> keep(unsigned ranges);

  Server& server_;
  History history_;
  Fd lock_;  // only one process may write
  std::unique_ptr<lmdb::Database> database_;
  bool told_ = false;
};

}  // namespace pen::api
