#pragma once
/// What anvil remembers of senders: the greylist and the quotas in memory, and their file, which a thread reads and
/// writes.
///
/// Use:     Memory memory(loop, data_directory, log::as_warning);
///          co_await memory.ready();   auto answer = memory.ask(question);
///          co_await memory.finish();                               // at the end: writes what is not written
/// Starts:  the file is opened with the first ready(). If it cannot be opened, all is remembered until the end of the
///          process, and `warn` is called.
/// Lost:    a kill loses the last kWriteEvery: some clients are put off once more, some messages are not counted.
/// Thread:  the loop's. Its task ends before it: finish().
#include <functional>
#include <memory>
#include <string>

#include "anvil/greylist.h"
#include "anvil/quotas.h"
#include "lib/async/handler_pool.h"
#include "lib/async/sync.h"
#include "lib/lmdb/hint_store.h"

namespace pen::anvil {

class Memory {
 public:
  using Warn = std::function<void(const std::string& line)>;
  static constexpr seconds kWriteEvery{2};
  /// How long the last anvil may take to leave the file.
  static constexpr seconds kPatience{3};

  Memory(async::Loop& loop, const std::string& data_directory, Warn warn);

  async::Task<void> ready();
  Greylist::Answer ask(const Greylist::Question& question) { return greylist_.ask(question, loop_.clock().wall_now()); }
  Quotas::Answer ask(const Quotas::Question& question) { return quotas_.ask(question, loop_.clock().wall_now()); }
  async::Task<void> finish();
  const Quotas& quotas() const { return quotas_; }
  const Greylist& greylist() const { return greylist_; }
  Greylist& greylist() { return greylist_; }

 private:
  static async::Task<void> run(Memory* memory);
  async::Task<void> open();
  async::Task<void> load();
  async::Task<void> write();

  async::Loop& loop_;
  std::string directory_;
  Warn warn_;
  Greylist greylist_;
  Quotas quotas_;
  std::shared_ptr<lmdb::HintStore> store_;  // nullptr: none
  bool started_ = false, failing_ = false;
  async::Event loaded_;
  async::Cancel stopping_;
  async::HandlerPool pool_;
  async::Gate tasks_;
};

}  // namespace pen::anvil
