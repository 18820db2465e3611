#pragma once
/// Keeps a table that one process has in memory in a file: read at the start, written behind by a thread.
///
/// Use:     class Senders : remembered::Table { … };
///          WrittenBehind file(loop, senders, {.directory = …, .words = …}, log::as_warning);
///          file.start();   co_await file.loaded();      // or do not wait: what is stored comes in piece by piece
///          file.write_soon();                           // after each change
///          co_await file.finish();                      // at the end
/// Owner:   decides what the table drops and when.
/// Starts:  waits up to kPatience for a process that still has the file, the one before a reload. If the file cannot be
///          opened, or cannot be read, all is known until the end of the process, and a warning says so.
/// Lost:    a kill loses what was learnt in the last kWriteEvery: all that is kept here are hints.
/// Thread:  the loop's. The table outlives it; finish() before it goes.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/base/lmdb/hint_store.h"
#include "lib/suite/remembered/table.h"

namespace pen::remembered {

class WrittenBehind {
 public:
  static constexpr milliseconds kWriteEvery{200};
  static constexpr seconds kPatience{3};

  /// What it costs when something goes wrong, for warnings: the end of a line that begins with the error.
  struct Words {
    std::string anew;       // the file is damaged: "clients are tested anew"
    std::string only_here;  // it cannot be opened: "clients that pass are known to this process only"
    std::string forgotten;  // it cannot be written: "clients that passed are forgotten at the next restart"
  };
  struct Options {
    std::string directory;     // "": nothing is kept
    std::size_t map_size = 0;  // address space: several times what a full table takes, as LMDB writes pages anew
    Words words;
  };
  using Warn = std::function<void(const std::string& line)>;

  WrittenBehind(async::Loop& loop, Table& table, Options options, Warn warn);

  void start();
  /// Returns when the file has been read, or is done without.
  async::Task<void> loaded();
  void write_soon() { changed_.set(); }
  /// Writes what there is and gives the file up for another process. What is learnt later is lost.
  async::Task<void> finish();

 private:
  static async::Task<void> run(WrittenBehind* file);
  async::Task<void> open();
  async::Task<void> read();
  async::Task<void> write();

  async::Loop& loop_;
  Table& table_;
  Options options_;
  Warn warn_;
  std::shared_ptr<lmdb::HintStore> store_;  // nullptr: none
  bool started_ = false, failing_ = false;
  async::Event loaded_, changed_;
  async::Cancel stopping_;
  async::HandlerPool pool_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::remembered
