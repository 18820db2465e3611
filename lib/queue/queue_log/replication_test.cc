// The queue on two hosts that die, part and come together again: docs/replication.md. Deterministic: the seed is
// printed; PEN_CRASH_SEED and PEN_CRASH_CUTS change seed and amount.
#include <boost/test/unit_test.hpp>
#include <iostream>
#include <optional>

#include "lib/queue/queue_log/testing/replicated_pair.h"
#include "lib/queue/queue_log/testing/workload.h"
#include "lib/testing/environment.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::from_environment;
using pen::testing::ReplicatedPair;

namespace {

/// What came up, over all workloads.
struct Story {
  std::uint64_t taken_over = 0, came_back = 0, parted = 0, copied = 0, died_while_copied = 0, refused = 0;
};

class TwoHosts final : public Machine {
 public:
  TwoHosts(Random random, ReplicatedPair::Mistake mistake, Story& story)
      : random_(random), pair_(Random(random_.next()), mistake), story_(story) {
    pair_.at_each_operation = [this](const FaultStorage& now) {
      // Not all: what two hosts do together is longer than what one does, and has more of the same.
      if (at_each_operation && random_.chance(0.05)) at_each_operation(now);
    };
  }
  Storage& storage() override { return pair_; }
  const FaultStorage& disk() const override { return pair_.disk(pair_.primary()); }
  bool failed() const override { return pair_.failed(); }

  /// One host dies, or both, or none but the process; then one that may starts.
  void restart(Random& random) override {
    const auto any = [&random] { return FaultStorage::kCuts[random.below(5)]; };
    const bool both = random.chance(0.3);
    const auto was = pair_.primary();
    const auto other = 1 - was;
    if (pair_.copying()) ++story_.died_while_copied;
    if (pair_.failed()) ++story_.refused;
    const bool takes_over = pair_.may_start(other) && (!pair_.may_start(was) || random.chance(0.6));
    ++(takes_over ? story_.taken_over : story_.came_back);
    if (takes_over)
      pair_.restart(other, both ? any() : FaultStorage::Cut::kill, any());
    else
      pair_.restart(was, any(), both ? any() : FaultStorage::Cut::kill);
  }

  void pass(Random& random) override {
    if (pair_.copying()) {
      for (auto slots = random.below(40); slots > 0; --slots) pair_.copy_some();
      if (!pair_.copying()) ++story_.copied;
    }
    if (!pair_.copying() && pair_.linked() && random.chance(0.03)) {
      ++story_.parted;
      pair_.arbiter_away = random.chance(0.4);
      pair_.lose_link();
    } else if (pair_.arbiter_away) {
      pair_.arbiter_away = !random.chance(0.1);
    } else if (!pair_.linked() && random.chance(0.5)) {
      pair_.mend_link();
    }
  }

 private:
  Random random_;
  ReplicatedPair pair_;
  Story& story_;
};

/// Sanitizers slow this down; what they look for shows in fewer cuts.
#ifdef PEN_FEW
constexpr std::uint64_t kCutsOfTwo = 10'000;
#else
constexpr std::uint64_t kCutsOfTwo = 50'000;
#endif

/// Runs workloads until that many cuts were checked; the violation, if any, with its seed.
std::optional<std::string> run(std::uint64_t wanted, std::uint64_t first_seed, ReplicatedPair::Mistake mistake,
                               std::uint64_t& cuts, Story& story) {
  for (std::uint64_t seed = first_seed; cuts < wanted; ++seed) {
    try {
      Random random(seed);
      const Options options = small_options(random);
      TwoHosts hosts(Random(random.next()), mistake, story);
      Workload(random, options, hosts, cuts).run(150);
    } catch (const Violation& v) {
      return "seed " + std::to_string(seed) + ": " + v.what;
    }
  }
  return std::nullopt;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log_replication)

BOOST_AUTO_TEST_CASE(nothing_acknowledged_is_lost_whichever_host_goes_on) {
  const auto wanted = from_environment("PEN_CRASH_CUTS", kCutsOfTwo);
  std::uint64_t cuts = 0;
  Story story;
  const auto violation = run(wanted, from_environment("PEN_CRASH_SEED", 1), ReplicatedPair::Mistake::none, cuts, story);
  std::cout << "two hosts: " << cuts << " cuts, " << story.taken_over << " times the other one took over, "
            << story.came_back << " times the same one came back; parted " << story.parted << " times, copied anew "
            << story.copied << " times, " << story.died_while_copied << " deaths during a copy, " << story.refused
            << " times nobody could say who goes on" << std::endl;
  BOOST_CHECK_MESSAGE(!violation, violation.value_or(""));
  for (const auto count :
       {story.taken_over, story.came_back, story.parted, story.copied, story.died_while_copied, story.refused})
    BOOST_TEST(count > 0u);
}

/// Engines that must not be taken: each of them loses mail, and the test above would show it.
BOOST_AUTO_TEST_CASE(an_engine_that_answers_early_or_goes_on_unasked_is_caught) {
  using Mistake = ReplicatedPair::Mistake;
  for (int m = 1; m < static_cast<int>(Mistake::last); ++m) {
    std::uint64_t cuts = 0;
    Story story;
    const auto violation = run(200'000, 1, static_cast<Mistake>(m), cuts, story);
    BOOST_CHECK_MESSAGE(violation.has_value(), "mistake " << m << " was not caught");
    BOOST_TEST_MESSAGE("mistake " << m << " caught after " << cuts << " cuts: " << violation.value_or("not at all"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
