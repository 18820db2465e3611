#pragma once
/// The file of the clients that passed (postscreen_cache_map). While it is read, clients are tested as if nothing were
/// known.
///
/// Use:     ScreenFile file(loop, screener, times);  file.start();   co_await file.finish();
/// Cleans:  each postscreen_cache_cleanup_interval, what is older than postscreen_cache_retention_time.
/// Lost:    what a kill loses is tested again (lib/suite/remembered/written_behind.h).
/// Thread:  the loop's. The screener outlives it.
#include "lib/base/async/sync.h"
#include "lib/suite/remembered/written_behind.h"
#include "smtpd/screener.h"

namespace pen::smtpd {

class ScreenFile {
 public:
  struct Times {
    milliseconds clean_each{0};  // 0: never
    seconds retention{0};
  };

  ScreenFile(async::Loop& loop, Screener& screener, Times times);
  void start();
  async::Task<void> finish();

 private:
  static async::Task<void> clean(ScreenFile* file);

  async::Loop& loop_;
  Screener& screener_;
  Times times_;
  remembered::WrittenBehind file_;
  async::Cancel stopping_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::smtpd
