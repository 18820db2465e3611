// Cuts the power, or kills the process, at every write, sync and allocation of random workloads, and looks at what the
// next start makes of it. Deterministic: the seed is printed; PEN_CRASH_SEED and PEN_CRASH_CUTS change seed and amount.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/queue/queue_log/testing/workload.h"
#include "lib/testing/environment.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::from_environment;
using pen::testing::ManualClock;

namespace {

/// One host with one disk, which fails now and then.
class OneDisk final : public Machine {
 public:
  OneDisk(const Options& options, Random& random) {
    // Half of them on a disk that gets full: what mail may take beyond the reserve is a few segments.
    if (random.chance(0.5)) {
      ManualClock clock;
      const auto figures = (*QueueLog::open(disk_, options, clock, random))->figures();
      disk_ = FaultStorage();
      disk_.capacity = 1 + figures.segments_free + figures.segments_used + 1 + random.below(8);
    }
    watch();
  }
  Storage& storage() override { return disk_; }
  const FaultStorage& disk() const override { return disk_; }
  void restart(Random& random) override {
    disk_ = disk_.cut(FaultStorage::kCuts[random.below(5)], random);
    watch();
  }
  bool let_a_sync_fail(Random& /*random*/) override {
    disk_.fail_sync = disk_.syncs() + 1;
    return true;
  }
  /// One of the next, and those after it or not.
  bool let_a_write_fail(Random& random) override {
    if (disk_.fail_write != 0) return false;
    disk_.fail_write = disk_.writes() + 1 + random.below(6);
    disk_.fail_one_write = random.chance(0.3);
    disk_.write_errno = random.chance(0.5) ? EIO : ENOSPC;
    return true;
  }
  bool failed() const override { return disk_.failed_sync() || disk_.failed_write(); }
  bool failed_write() const override { return disk_.failed_write(); }

 private:
  void watch() {
    disk_.before_operation = [this](const FaultStorage& now) {
      if (at_each_operation) at_each_operation(now);
    };
  }
  FaultStorage disk_;
};

/// Sanitizers slow this down; what they look for shows in fewer cuts.
#ifdef PEN_FEW
constexpr std::uint64_t kCutsInCheck = 20'000;
#else
constexpr std::uint64_t kCutsInCheck = 100'000;
#endif

/// Runs workloads until that many cuts were checked; the violation, if any, with its seed.
std::optional<std::string> crash(std::uint64_t wanted, std::uint64_t first_seed, std::uint64_t& cuts) {
  cuts = 0;
  for (std::uint64_t seed = first_seed; cuts < wanted; ++seed) {
    try {
      Random random(seed);
      const Options options = small_options(random);
      OneDisk disk(options, random);
      Workload(random, options, disk, cuts).run(150);
    } catch (const Violation& v) {
      return "seed " + std::to_string(seed) + ": " + v.what;
    }
  }
  return std::nullopt;
}

/// Mistakes that no crash shows: fault_test.cc finds them.
[[maybe_unused]] bool shown_by_a_crash(Breakage b) {
  return b != Breakage::odd_mark_is_garbage && b != Breakage::recycle_damaged && b != Breakage::take_the_reserve;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log_crash)

BOOST_AUTO_TEST_CASE(nothing_acknowledged_is_lost_wherever_the_power_is_cut) {
  const auto seed = from_environment("PEN_CRASH_SEED", 1);
  const auto wanted = from_environment("PEN_CRASH_CUTS", kCutsInCheck);
  std::uint64_t cuts = 0;
  const auto violation = crash(wanted, seed, cuts);
  const auto& failed = Workload::failed_writes;
  std::cout << "queue log: seed " << seed << ", " << cuts << " cuts, " << Workload::refusals
            << " appends refused for want of space, up to " << Workload::most_in_hand << " commits in hand, "
            << Workload::taken_again << " messages taken again, " << Workload::superseded
            << " versions that lost, failed writes: " << failed.journal << " of the journal, " << failed.retry
            << " of retry logs, " << failed.hold << " of the hold log, " << failed.marks << " marks, "
            << failed.positions << " positions; " << failed.recovery << " during recovery" << std::endl;
  BOOST_TEST(cuts >= wanted);
  BOOST_TEST(Workload::refusals > 0u);
  BOOST_TEST(Workload::taken_again > 0u);
  BOOST_TEST(Workload::superseded > 0u);
#ifndef PEN_FEW
  // In as many cuts as ./check makes each of these comes up.
  if (wanted >= kCutsInCheck)
    for (const auto count :
         {failed.journal, failed.retry + failed.hold, failed.marks, failed.positions, failed.recovery})
      BOOST_TEST(count > 0u);
#endif
  // All at once is rare in such short segments: a commit that ends one is alone.
#ifndef PEN_FEW
  BOOST_TEST(Workload::most_in_hand > QueueLog::kJournalBatches / 2);
#endif
  BOOST_CHECK_MESSAGE(!violation, violation.value_or(""));
}

/// A harness that cannot fail proves nothing: each of these mistakes must be found. (Not in the gate, for it takes
/// minutes, and not under sanitizers, which look for other things, in the test above.)
#ifndef PEN_FEW
BOOST_AUTO_TEST_CASE(each_deliberate_mistake_is_caught) {
  const auto first = from_environment("PEN_CRASH_MISTAKE", 1);
  for (int b = static_cast<int>(first); b < static_cast<int>(Breakage::last); ++b) {
    if (!shown_by_a_crash(static_cast<Breakage>(b))) continue;
    const BreakageScope scope(static_cast<Breakage>(b));
    std::uint64_t cuts = 0;
    const auto violation = crash(200000, 1, cuts);
    BOOST_CHECK_MESSAGE(violation.has_value(), "breakage " << b << " was not caught");
    BOOST_TEST_MESSAGE("breakage " << b << " caught after " << cuts << " cuts: " << violation.value_or("not at all"));
  }
}
#endif

BOOST_AUTO_TEST_SUITE_END()
