#pragma once
/// The cache's file (address_verify_map): read at the start, written behind by a thread.
///
/// Use:     co_await file.open(cache);   changed() after each change;   co_await file.finish();
/// Starts:  waits up to kPatience for a process that still has the file. If the file cannot be opened, all is known
///          until the end of the process, and a warning says so.
/// Lost:    a kill loses what was learned in the last kWriteEvery: it is probed for again.
/// Thread:  the loop's.
#include <memory>
#include <string>

#include "lib/async/handler_pool.h"
#include "lib/async/sync.h"
#include "verify/cache.h"

namespace pen::verify {

/// The directory that address_verify_map names; "": none. Errors: a type of table that verify cannot write.
Result<std::string> cache_directory(std::string_view address_verify_map);

class File {
 public:
  static constexpr milliseconds kWriteEvery{200};
  static constexpr seconds kPatience{3};

  /// directory: "": nothing is kept. The cache must outlive this object.
  File(async::Loop& loop, std::string directory, Cache& cache);
  /// Reads what is stored, and writes changes from then on.
  async::Task<void> open();
  void changed() { changed_.set(); }
  async::Task<void> finish();

 private:
  static async::Task<void> keep_writing(File* file);
  async::Task<void> read();
  async::Task<void> write();

  async::Loop& loop_;
  std::string directory_;
  Cache& cache_;
  std::shared_ptr<lmdb::HintStore> store_;  // nullptr: none
  bool failing_ = false;
  async::Event changed_;
  async::Cancel stopping_;
  async::HandlerPool pool_;
  async::Gate tasks_;
};

}  // namespace pen::verify
