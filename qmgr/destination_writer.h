#pragma once
/// Keeps the file of destdb as its memory is: what is known of destinations, orders, and what quotas and sources that
/// are warmed up have used.
///
/// Use:     DestinationWriter writer(loop, pool, destinations, edges); loop.spawn("destinations", writer.run());
///          writer.write_counts();      // mail waits for the count of its source; Edges::counts_written says when
///          co_await writer.write();    // for an order: what has changed is on the disk then, or why it is not
///          writer.drain(); co_await writer.write();      // nothing is sent any more: the counts are exact
/// When:    off the hot path, each five seconds on another thread, some thousands of changes in one transaction. Counts
///          that mail waits for are written at once, and alone.
/// Disk:    what could not be written is with the next changes. No mail waits for a disk that fails or is full: the
///          counts are in memory alone then. A disk that hangs holds mail of sources that are warmed up for kPatience,
///          then the same. No source sends more than its day's number while the process lives; a kill then forgets what
///          was counted since the last write that ended, so that the source may send as much again on that day, its
///          number at most. The log has each of these once in ten minutes.
/// Thread:  the loop's. pool: of one thread, which keeps the writes in their order. The writer must outlive its
///          coroutines, and what it is given the writer.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/queue/destdb/destdb.h"
#include "lib/send/egress/ledger.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {

class DestinationWriter {
 public:
  static constexpr seconds kPatience{5};

  struct Edges {
    /// What quotas have used since the last call. last: nothing goes after this.
    std::function<std::vector<Spent>(bool last)> spent = [](bool) { return std::vector<Spent>(); };
    egress::Ledger* ledger = nullptr;  // nullptr: there are no sources
    /// Mail that waits for a count is to ask the ledger again.
    std::function<void()> counts_written = [] {};
    /// These records were collected: holders of copies forget them too.
    std::function<void(const std::vector<std::string>& keys)> forgotten = [](const auto&) {};
    milliseconds every{5000}, patience = kPatience;
  };

  DestinationWriter(async::Loop& loop, async::HandlerPool& pool, destdb::DestDb& destinations, Edges edges)
      : loop_(loop), pool_(pool), destinations_(destinations), edges_(std::move(edges)), wanted_(loop) {}

  async::Task<void> run();
  void write_counts();
  async::Task<Result<void>> write();
  void drain() { draining_ = true; }

 private:
  /// The ledger's changes, which are in destdb's memory then.
  std::vector<egress::Ledger::Change> take_counts();
  void kept(const std::vector<egress::Ledger::Change>& counts);
  async::Task<void> write_these_counts();
  async::Task<Result<void>> write_changes();
  async::Task<Result<void>> store(std::vector<destdb::Change> changes);
  /// A write takes long.
  void hangs();
  void count_in_memory();
  /// Once in ten minutes. told: when that was.
  void tell(std::optional<SteadyTime>& told, const std::string& trouble);

  async::Loop& loop_;
  async::HandlerPool& pool_;
  destdb::DestDb& destinations_;
  const Edges edges_;
  async::Event wanted_;
  bool draining_ = false;
  std::size_t under_way_ = 0;  // writes
  bool hanging_ = false;
  bool counting_soon_ = false;
  std::optional<SteadyTime> hung_, failed_;  // when the log was told last
  bool in_trouble_ = false;                  // the log was told, and not yet that it is over
};

}  // namespace pen::qmgr
