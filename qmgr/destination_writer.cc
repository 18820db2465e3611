#include "qmgr/destination_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/base/log.h"

namespace pen::qmgr {

namespace {
constexpr std::size_t kBatch = 5000;  // changes in one transaction
constexpr seconds kTellEach{600};
// Stale records are looked for in slices that go round in about an hour: no turn of the loop walks over all of them.
constexpr seconds kRound{3600};
}  // namespace

async::Task<void> DestinationWriter::run() {
  const auto slices = static_cast<std::size_t>(std::max<std::int64_t>(kRound / edges_.every, 1));
  for (SteadyTime look = loop_.now() + edges_.every;;) {
    // Sooner, where mail waits for a count to be written.
    (void)co_await wanted_.wait({.deadline = look});
    wanted_.reset();
    if (loop_.now() < look) {
      co_await write_these_counts();
      continue;
    }
    look = loop_.now() + edges_.every;
    const auto gone = destinations_.collect_some(loop_.clock().wall_now(), destinations_.places() / slices + 1);
    if (!gone.empty()) edges_.forgotten(gone);
    (void)co_await write();
  }
}

void DestinationWriter::write_counts() {
  if (!hanging_) return wanted_.set();
  // Not at once: the caller may have more mail in hand for which it asks.
  if (!std::exchange(counting_soon_, true)) loop_.post([this] { count_in_memory(); });
}

void DestinationWriter::count_in_memory() {
  counting_soon_ = false;
  if (!hanging_) return wanted_.set();  // the write has ended meanwhile
  kept(take_counts());
}

std::vector<egress::Ledger::Change> DestinationWriter::take_counts() {
  if (edges_.ledger == nullptr) return {};
  auto counts = edges_.ledger->take_changes(draining_);
  for (const auto& c : counts) destinations_.note(c.key, c.value);
  return counts;
}

void DestinationWriter::kept(const std::vector<egress::Ledger::Change>& counts) {
  if (edges_.ledger == nullptr) return;
  edges_.ledger->kept(counts);
  // Nothing is sent any more in a drain: the next process sees to what waits.
  if (!draining_) edges_.counts_written();
}

async::Task<void> DestinationWriter::write_these_counts() {
  if (draining_) co_return;
  const auto counts = take_counts();
  std::vector<std::string> keys;
  for (const auto& c : counts) keys.push_back(c.key);
  (void)co_await store(destinations_.take_notes(keys));
  kept(counts);
}

async::Task<Result<void>> DestinationWriter::write() {
  for (auto& s : edges_.spent(draining_)) destinations_.note(s.key, std::move(s.value));
  const auto counts = take_counts();
  auto done = co_await write_changes();
  kept(counts);
  co_return done;
}

async::Task<Result<void>> DestinationWriter::write_changes() {
  // What changes meanwhile is for the next time.
  for (std::size_t left = destinations_.changes(); left > 0;) {
    auto changes = destinations_.take_changes(kBatch);
    if (changes.empty()) break;  // written by another caller
    left -= std::min(left, changes.size());
    if (auto done = co_await store(std::move(changes)); !done) co_return done;
  }
  // What another caller has taken: the pool has one thread.
  if (under_way_ > 0) (void)co_await pool_.run([] { return Result<void>(); });
  co_return Result<void>{};
}

async::Task<Result<void>> DestinationWriter::store(std::vector<destdb::Change> taken) {
  const auto changes = std::make_shared<const std::vector<destdb::Change>>(std::move(taken));
  const auto patience = loop_.call_at(loop_.now() + edges_.patience, [this] { hangs(); });
  ++under_way_;
  auto done = co_await pool_.run([changes, file = destinations_.file()] { return file->write(*changes); });
  if (--under_way_ == 0) hanging_ = false;
  if (!done) {
    destinations_.put_back(*changes);
    tell(failed_, done.error().message());
  } else if (!hanging_ && std::exchange(in_trouble_, false)) {
    log::info("destination database: it is written again");
  }
  co_return done;
}

void DestinationWriter::hangs() {
  if (draining_ || std::exchange(hanging_, true)) return;
  tell(hung_, "a write to its disk has not ended in " +
                  std::to_string(std::chrono::ceil<seconds>(edges_.patience).count()) + " s");
  write_counts();
}

void DestinationWriter::tell(std::optional<SteadyTime>& told, const std::string& trouble) {
  // In a drain what is lost is not worth a word.
  if (draining_ || (told && loop_.now() < *told + kTellEach)) return;
  told = loop_.now();
  in_trouble_ = true;
  log::warning(
      "destination database: {}; what was learned stays in memory, and is written when it can be. Until then a kill "
      "forgets it, and what sources that are warmed up have sent",
      trouble);
}

}  // namespace pen::qmgr
