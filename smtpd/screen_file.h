#pragma once
/// The file of the clients that passed (postscreen_cache_map): read at the start, written behind by a thread.
///
/// Use:     ScreenFile file(loop, screener, times);  file.start();   co_await file.finish();
/// Starts:  waits up to kPatience for a process that still has the file: the one before a reload. If the file cannot be
///          opened, clients are known until the end of the process, and a warning says so. Meanwhile clients are
///          tested as if nothing were known.
/// Lost:    a kill loses what was learnt in the last kWriteEvery: these clients are tested again.
/// Cleans:  each postscreen_cache_cleanup_interval, what is older than postscreen_cache_retention_time.
/// Thread:  the loop's. The screener outlives it.
#include <memory>
#include <string>

#include "lib/async/handler_pool.h"
#include "lib/async/sync.h"
#include "lib/lmdb/hint_store.h"
#include "smtpd/screener.h"

namespace pen::smtpd {

class ScreenFile {
 public:
  static constexpr milliseconds kWriteEvery{200};
  static constexpr seconds kPatience{3};
  struct Times {
    milliseconds clean_each{0};  // 0: never
    seconds retention{0};
  };

  ScreenFile(async::Loop& loop, Screener& screener, Times times);
  void start();
  /// Writes what there is and gives the file up for another process. What is learnt later is lost.
  async::Task<void> finish();

 private:
  static async::Task<void> run(ScreenFile* file);
  static async::Task<void> clean(ScreenFile* file);
  async::Task<void> open();
  async::Task<void> read();
  async::Task<void> write();

  async::Loop& loop_;
  Screener& screener_;
  Times times_;
  std::shared_ptr<lmdb::HintStore> store_;  // nullptr: none
  bool failing_ = false;
  async::Event changed_;
  async::Cancel stopping_;
  async::HandlerPool pool_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::smtpd
