// The hold log stays short, and what is on hold stays on hold while it is made so.
#include <map>
#include <set>

#include "lib/queue/queue_log/queue_fixture.h"
#include "lib/queue/queue_log/scan.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

struct Held : Queue {
  void hold(const std::string& id, std::size_t bytes = 700) {
    accept(envelope(id, std::string(bytes, 'p')));
    const auto message = due();
    BOOST_REQUIRE(message && message->envelope.queue_id == id);
    BOOST_REQUIRE(log->work().start(*message).has_value());
    BOOST_REQUIRE(log->work().hold(id, message->envelope).has_value());
    settle();
  }
  std::map<std::string, Listed> held() {
    std::map<std::string, Listed> found;
    auto scan = log->scan();
    while (!scan->done()) {
      auto some = scan->step(50);
      BOOST_REQUIRE(some.has_value());
      for (auto& l : *some) {
        BOOST_TEST(l.place.log == kHold, l.queue_id << " is not on hold");
        BOOST_TEST(found.emplace(l.queue_id, l).second, l.queue_id << " is there twice");
      }
    }
    return found;
  }
  void drop(const std::string& id) {
    const auto all = held();
    const auto it = all.find(id);
    BOOST_REQUIRE(it != all.end());
    BOOST_REQUIRE(log->work().remove(it->second.place, id, it->second.generation).has_value());
    settle();
  }
  void settle() {
    log->commits().flush();
    commit();
  }
  /// To its end, each step followed by `then`; how many steps waited for a commit.
  template <class Then>
  int compact(Then then) {
    int waits = 0;
    for (int i = 0; i < 10000; ++i) {
      const auto did = log->compact_held(4096);
      BOOST_REQUIRE(did.has_value());
      if (*did == QueueLog::Compaction::idle) return waits;
      if (*did == QueueLog::Compaction::waits) ++waits;
      then();
    }
    BOOST_FAIL("it does not end");
    return waits;
  }
  int compact() {
    return compact([this] { settle(); });
  }
  /// After a save, which is what gives segments back.
  std::size_t used() {
    log->commits().save_positions();
    settle();
    return log->figures().segments_used;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log_hold)

BOOST_FIXTURE_TEST_CASE(one_message_held_for_long_keeps_no_segments_after_it, Held) {
  recover();
  hold("old");
  const std::size_t before = used();
  for (int i = 0; i < 300; ++i) {
    hold("m" + std::to_string(i));
    drop("m" + std::to_string(i));
    compact();
    BOOST_TEST(used() <= before + 6);
  }
  BOOST_TEST(held().size() == 1U);
  BOOST_TEST(held().contains("old"));
  restart(FaultStorage::Cut::none);
  BOOST_TEST(held().contains("old"));
  BOOST_TEST(log->runners().read(held().at("old").place)->envelope.payload == std::string(700, 'p'));
}

BOOST_FIXTURE_TEST_CASE(what_grew_before_a_restart_is_made_short_after_it, Held) {
  recover();
  for (int i = 0; i < 200; ++i) hold("m" + std::to_string(i));
  const std::size_t full = used();
  for (int i = 0; i < 200; ++i)
    if (i % 10 != 0) drop("m" + std::to_string(i));
  BOOST_TEST(used() > full / 2);
  restart(FaultStorage::Cut::kill);
  BOOST_TEST(compact() > 0);
  BOOST_TEST(used() < full / 2);
  BOOST_TEST(held().size() == 20U);
}

BOOST_FIXTURE_TEST_CASE(a_log_of_which_most_lives_is_not_written_anew, Held) {
  recover();
  for (int i = 0; i < 200; ++i) hold("m" + std::to_string(i));
  for (int i = 0; i < 200; i += 4) drop("m" + std::to_string(i));
  const auto written = log->figures().appended_bytes;
  BOOST_TEST(compact() == 0);
  BOOST_TEST(log->figures().appended_bytes == written);
}

BOOST_FIXTURE_TEST_CASE(what_was_counted_whole_and_then_left_gives_its_segments_back, Held) {
  recover();
  for (int i = 0; i < 200; ++i) hold("m" + std::to_string(i));
  const std::size_t full = used();
  BOOST_TEST(compact() == 0);  // all of it lives
  for (int i = 1; i < 200; ++i) drop("m" + std::to_string(i));
  BOOST_TEST(compact() > 0);
  BOOST_TEST(used() < full / 2);
  BOOST_TEST(held().size() == 1U);
  const auto written = log->figures().appended_bytes;
  BOOST_TEST(compact() == 0);  // and that is it
  BOOST_TEST(log->figures().appended_bytes == written);
}

BOOST_FIXTURE_TEST_CASE(a_message_being_moved_cannot_be_started_or_removed_and_then_can, Held) {
  recover();
  for (int i = 0; i < 200; ++i) hold("m" + std::to_string(i));
  const auto kept = held().at("m0");
  for (int i = 1; i < 200; ++i) drop("m" + std::to_string(i));
  bool met = false;
  for (int i = 0; i < 1000 && !met; ++i) {
    auto did = log->compact_held(4096);
    BOOST_REQUIRE(did.has_value());
    met = *did == QueueLog::Compaction::waits;
    if (*did == QueueLog::Compaction::idle) break;
  }
  BOOST_REQUIRE(met);
  BOOST_TEST(log->work().remove(kept.place, "m0", kept.generation).error().is(QueueLogError::not_found));
  BOOST_TEST(log->work().start("m0", kept.place, 100, kept.generation).error().is(QueueLogError::not_found));
  BOOST_TEST(!log->work().working("m0"));
  settle();
  BOOST_TEST(log->runners().read(kept.place).error().is(QueueLogError::not_found));
  const auto now = held().at("m0");
  BOOST_TEST(now.generation == kept.generation + 1);
  const auto stored = log->runners().read(now.place);
  BOOST_REQUIRE(stored.has_value());
  BOOST_REQUIRE(log->work().start(*stored).has_value());
  BOOST_REQUIRE(log->work().release("m0", stored->envelope).has_value());
  commit();
  BOOST_TEST(due()->envelope.queue_id == "m0");
}

// A crash in the middle must neither lose a message, nor show it twice, nor deliver what is on hold.
BOOST_FIXTURE_TEST_CASE(wherever_the_power_is_cut_what_is_on_hold_is_there_once_and_stays, Held) {
  options.save_every = 6000;
  restart(FaultStorage::Cut::kill);
  for (int i = 0; i < 80; ++i) hold("m" + std::to_string(i));
  std::set<std::string> kept;
  for (int i = 0; i < 80; ++i) {
    if (i % 10 == 3)
      kept.insert("m" + std::to_string(i));
    else
      drop("m" + std::to_string(i));
  }
  int cuts = 0;
  Random cutting(7);
  disk.before_operation = [&](const FaultStorage& now) {
    for (const auto how : FaultStorage::kCuts) {
      Held after;
      after.options = options;
      after.log.reset();
      after.disk = now.cut(how, cutting);
      after.open();
      after.recover();
      ++cuts;
      std::set<std::string> found;
      for (const auto& [id, listed] : after.held()) found.insert(id);
      BOOST_TEST(found == kept, boost::test_tools::per_element());
      BOOST_TEST(!after.due().has_value());
    }
  };
  compact();
  used();
  disk.before_operation = nullptr;
  BOOST_TEST(cuts > 50);
}

BOOST_FIXTURE_TEST_CASE(below_the_reserve_nothing_is_moved, Held) {
  recover();
  for (int i = 0; i < 200; ++i) hold("m" + std::to_string(i));
  for (int i = 0; i < 190; ++i) drop("m" + std::to_string(i));
  disk.capacity = disk.slots();
  for (int i = 0; log->append(envelope("n" + std::to_string(i), std::string(2000, 'n'))); ++i) commit();
  BOOST_REQUIRE(!log->has_space());
  const auto written = log->figures().appended_bytes;
  compact([] {});
  BOOST_TEST(log->figures().appended_bytes == written);
}

BOOST_AUTO_TEST_SUITE_END()
