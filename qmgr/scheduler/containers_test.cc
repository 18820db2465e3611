/// The scheduler's own containers, each against a plain one of the standard library under random operations.
#include <boost/test/unit_test.hpp>

#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "lib/base/random.h"
#include "qmgr/scheduler/first_inline.h"
#include "qmgr/scheduler/number_table.h"
#include "qmgr/scheduler/ordinals.h"
#include "qmgr/scheduler/slab.h"
#include "qmgr/scheduler/worker_queue.h"

namespace pen::qmgr {
namespace {

struct Counted {
  static inline int alive = 0;
  explicit Counted(std::uint64_t v) : value(v) { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  std::uint64_t value;
  char padding[5000] = {};  // some hundred to a block: the test goes through several
};

BOOST_AUTO_TEST_SUITE(scheduler_containers)

BOOST_AUTO_TEST_CASE(a_slab_finds_what_lives_and_nothing_that_has_gone) {
  Random random(1);
  {
    Slab<Counted> slab;
    std::map<std::uint64_t, std::uint64_t> living;  // number, value
    std::vector<std::uint64_t> gone;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      if (living.empty() || random.below(100) < (i < 10'000 ? 60U : 40U)) {
        const auto made = slab.make(i);
        BOOST_REQUIRE(made.number != 0 && living.emplace(made.number, i).second);
      } else {
        auto at = living.lower_bound(random.next());
        if (at == living.end()) at = living.begin();
        slab.destroy(at->first);
        gone.push_back(at->first);
        living.erase(at);
      }
    }
    BOOST_TEST(slab.size() == living.size());
    BOOST_TEST(Counted::alive == static_cast<int>(living.size()));
    for (const auto& [number, value] : living) {
      BOOST_REQUIRE(slab.find(number) != nullptr);
      BOOST_REQUIRE(slab.find(number)->value == value);
    }
    for (const std::uint64_t number : gone) BOOST_REQUIRE(slab.find(number) == nullptr);
    BOOST_TEST(slab.find(0) == nullptr);
    std::size_t seen = 0;
    slab.for_each([&](const Counted&) { ++seen; });
    BOOST_TEST(seen == living.size());
  }
  BOOST_TEST(Counted::alive == 0);
}

BOOST_AUTO_TEST_CASE(a_number_table_says_what_a_map_says) {
  Random random(2);
  NumberTable<int> table;
  std::unordered_map<std::uint64_t, int*> map;
  std::vector<int> objects(5000);
  for (int i = 0; i < 200'000; ++i) {
    // Runs of neighbours, and numbers far apart; 0 is a number too.
    const std::uint64_t number = random.chance(0.5) ? random.below(5000) : random.below(500) << 40U;
    const auto at = map.find(number);
    BOOST_REQUIRE(table.find(number) == (at == map.end() ? nullptr : at->second));
    if (at != map.end()) {
      table.erase(number);
      map.erase(at);
    } else {
      int* const object = &objects[random.below(objects.size())];
      table.insert(number, object);
      map.emplace(number, object);
    }
    BOOST_REQUIRE(table.size() == map.size());
  }
  for (const auto& [number, object] : map) BOOST_REQUIRE(table.find(number) == object);
}

BOOST_AUTO_TEST_CASE(a_map_with_its_first_entry_inline_keeps_values_in_place) {
  FirstInline<int, std::string> map;
  int keys[4] = {};
  BOOST_TEST(map.find(&keys[0]) == nullptr);
  std::string* const first = &map.make(&keys[0], "first");
  std::string* const second = &map.make(&keys[1], "second");
  map.erase(&keys[0]);
  BOOST_TEST(map.find(&keys[0]) == nullptr);
  std::string* const third = &map.make(&keys[2], "third");
  BOOST_TEST(third == first);  // the place within is used again
  BOOST_TEST(map.find(&keys[1]) == second);
  BOOST_TEST(*map.find(&keys[2]) == "third");
  map.erase(&keys[1]);
  BOOST_TEST(map.find(&keys[1]) == nullptr);
  BOOST_TEST(map.find(&keys[3]) == nullptr);
}

BOOST_AUTO_TEST_CASE(unrouted_ordinals_come_out_as_from_a_queue) {
  Random random(3);
  Unrouted unrouted;
  std::deque<std::uint32_t> queue;
  std::uint32_t next = 0;
  for (int i = 0; i < 100'000; ++i) {
    switch (random.below(4)) {
      case 0: {  // a slice of an envelope
        Ordinals more;
        const std::uint64_t count = random.below(4);
        for (std::uint64_t k = 0; k < count; ++k) more.push_back(next++);
        unrouted.add(more);
        queue.insert(queue.end(), more.begin(), more.end());
        break;
      }
      case 1:
        if (!queue.empty()) {
          const std::uint32_t taken = unrouted.pop_front();
          BOOST_REQUIRE(taken == queue.front());
          queue.pop_front();
          if (random.chance(0.1)) {  // lost: asked for again
            unrouted.push_front(taken);
            queue.push_front(taken);
          }
        }
        break;
      case 2:
        if (!queue.empty()) {
          BOOST_REQUIRE(unrouted.pop_front() == queue.front());
          queue.pop_front();
        }
        break;
      default:
        if (random.chance(0.3)) {  // routed again
          const auto old = static_cast<std::uint32_t>(random.below(next + 1));
          unrouted.push_back(old);
          queue.push_back(old);
        }
    }
    BOOST_REQUIRE(unrouted.empty() == queue.empty());
  }
  BOOST_TEST(unrouted.all() == Ordinals(queue.begin(), queue.end()));
}

BOOST_AUTO_TEST_CASE(a_worker_queue_chooses_as_a_walk_over_all_would) {
  struct Waiting {
    explicit Waiting(std::uint64_t seq) { entry.seq = seq; }
    WorkerQueue<Waiting>::Entry entry{this};
    std::uint32_t concurrency = 0;
    bool in = false;
  };
  Random random(4);
  const Fairness fairness{.max_message_concurrency = 3, .scale_max_concurrency = 2};
  std::vector<std::unique_ptr<Waiting>> all;
  for (std::uint64_t seq = 1; seq <= 200; ++seq) all.push_back(std::make_unique<Waiting>(seq));
  WorkerQueue<Waiting> queue;
  for (int i = 0; i < 100'000; ++i) {
    Waiting& w = *all[random.below(all.size())];
    switch (random.below(4)) {
      case 0:
        queue.add(w.entry);
        w.in = true;
        break;
      case 1:
        queue.remove(w.entry);
        w.in = false;
        break;
      case 2:
        w.concurrency = static_cast<std::uint32_t>(random.below(12));
        queue.update(w.entry, w.concurrency);
        break;
      default: {
        const std::uint64_t free = random.below(7);
        Waiting* expected = nullptr;
        for (const auto& one : all) {
          if (free > 0 && one->in && fairness.allowed(one->concurrency, free)) {
            expected = one.get();
            break;
          }
        }
        BOOST_REQUIRE(queue.next(fairness, free) == expected);
      }
    }
  }
  std::size_t in = 0;
  for (const auto& one : all) in += one->in ? 1 : 0;
  BOOST_TEST(queue.size() == in);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmgr
