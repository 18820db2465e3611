#pragma once
/// What anvil remembers of senders: the greylist and the quotas in memory, and their file.
///
/// Use:     Memory memory(loop, data_directory, log::as_warning);
///          co_await memory.ready();   auto answer = memory.ask(question);
///          co_await memory.finish();                               // at the end: writes what is not written
/// Starts:  the file is opened with the first ready().
/// Cleans:  a piece of both tables each kCleanEvery, and writes what has changed since the last time.
/// Lost:    a kill loses the last kCleanEvery: some clients are put off once more, some messages are not counted
///          (lib/suite/remembered/written_behind.h).
/// Thread:  the loop's. Its task ends before it: finish().
#include <string>
#include <string_view>
#include <vector>

#include "anvil/greylist.h"
#include "anvil/quotas.h"
#include "lib/base/async/sync.h"
#include "lib/suite/remembered/written_behind.h"

namespace pen::anvil {

class Memory final : private remembered::Table {
 public:
  static constexpr seconds kCleanEvery{2};

  Memory(async::Loop& loop, const std::string& data_directory, remembered::WrittenBehind::Warn warn);

  async::Task<void> ready();
  Greylist::Answer ask(const Greylist::Question& question) { return greylist_.ask(question, loop_.clock().wall_now()); }
  Quotas::Answer ask(const Quotas::Question& question) { return quotas_.ask(question, loop_.clock().wall_now()); }
  async::Task<void> finish();
  const Quotas& quotas() const { return quotas_; }
  Quotas& quotas() { return quotas_; }
  const Greylist& greylist() const { return greylist_; }
  Greylist& greylist() { return greylist_; }

 private:
  static async::Task<void> clean(Memory* memory);
  void take(std::string_view key, std::string_view value) override;
  bool changed() const override { return greylist_.changed() || quotas_.changed(); }
  std::vector<Change> take_changes(std::size_t most) override;

  async::Loop& loop_;
  Greylist greylist_;
  Quotas quotas_;
  remembered::WrittenBehind file_;
  bool started_ = false;
  async::Cancel stopping_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::anvil
