#pragma once
/// Two hosts with a disk each, and between them an engine that copies what one writes to the other before a sync
/// returns: what docs/replication.md asks of such an engine, in memory, for crash tests.
///
/// Use:     ReplicatedPair pair;  QueueLog::open(pair, …);       // on the host that is primary
///          pair.lose_link();  pair.mend_link();  pair.copy_some();
///          pair.restart(host, how, other);                      // dies, one of them or both; `host` is primary then
///          pair.at_each_operation = [](const FaultStorage& now) { … };   // each disk that may be started from now
/// Rules:   - A write goes to both hosts; it may be on its way to the other one for a while, and of what is on its way
///            when the link or a host dies anything may have arrived. sync(), allocate() and set_aside() return when
///            both hosts have it.
///          - When the link dies the primary writes down at the arbiter that it is alone, and only then goes on. The
///            arbiter is what holds the lease (docs/standby.md). Where it cannot be asked every call fails.
///          - A host that starts as primary is alone, by the same word at the arbiter. While one is alone no other may
///            start.
///          - When the link is back the other host gets a copy of everything. What is written meanwhile goes to both
///            where it is copied already. With the last byte synced the primary is alone no more.
/// Thread:  one.
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "lib/base/random.h"
#include "lib/queue/queue_log/storage.h"
#include "lib/queue/queue_log/testing/fault_storage.h"

namespace pen::testing {

class ReplicatedPair final : public queue_log::Storage {
 public:
  using Slot = queue_log::Slot;
  using Host = unsigned;  // 0 or 1
  /// Engines that lose mail: a test that finds nothing wrong with them proves nothing.
  enum class Mistake {
    none,
    answers_early,  // sync() does not wait for the other host
    asks_nobody,    // without its link the primary goes on, and the arbiter does not know
    starts_a_copy,  // a host may start from a copy that is not complete
    last,
  };

  explicit ReplicatedPair(Random random, Mistake mistake = Mistake::none);

  Result<std::vector<SlotInfo>> list() override;
  Result<void> allocate(Slot slot, std::uint64_t size) override;
  Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) override;
  Result<void> sync(Slot slot) override;
  Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) override;
  Result<void> drop_cache(Slot slot) override;
  Result<void> set_aside(Slot slot) override;

  Host primary() const { return primary_; }
  const FaultStorage& disk(Host host) const { return disks_[host]; }
  bool linked() const { return linked_; }
  bool copying() const { return copying_; }
  /// A host may become primary: the other one does not have more than it.
  bool may_start(Host host) const;
  /// Nobody answers where the lease is kept.
  bool arbiter_away = false;
  /// A call failed because the arbiter was away: the process has to end.
  bool failed() const { return failed_; }

  void lose_link();
  /// The other host is there again, with a disk that is copied anew.
  void mend_link();
  /// The next slot of the copy.
  void copy_some();
  /// The processes end, and what is not `kill` says what became of a host. `host`, which may_start(), is primary from
  /// now on, and alone.
  void restart(Host host, FaultStorage::Cut how, FaultStorage::Cut other);

  /// Called before each operation of either disk with what a start could find now.
  std::function<void(const FaultStorage&)> at_each_operation;

 private:
  struct Write {
    Slot slot;
    std::uint64_t offset;
    std::string bytes;
  };
  FaultStorage& here() { return disks_[primary_]; }
  FaultStorage& there() { return disks_[1 - primary_]; }
  bool mirrored(Slot slot) const { return linked_ && (!copying_ || copied_.contains(slot)); }
  /// So many of those on their way arrive, the oldest first.
  void arrive(std::size_t count);
  /// Nothing is answered before the other host has it, or nobody can believe that it has.
  Result<void> together_or_alone();
  /// The other host as it would be if the link died now.
  FaultStorage other_without_link() const;
  void watch();

  mutable Random random_;
  Mistake mistake_;
  FaultStorage disks_[2];
  Host primary_ = 0;
  bool linked_ = true;
  bool failed_ = false;
  std::deque<Write> on_the_way_;
  bool copying_ = false;
  std::set<Slot> copied_;
  std::optional<Host> alone_;  // what the arbiter knows
};

}  // namespace pen::testing
