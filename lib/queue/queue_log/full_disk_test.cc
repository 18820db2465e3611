// The reserve, and a disk without room.
#include <set>
#include "lib/queue/queue_log/queue_fixture.h"

#include "lib/queue/queue_log/scan.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

struct Disk : Queue {
  /// Messages m0, m1, … until one is refused; how many were taken.
  std::size_t fill() {
    std::size_t accepted = 0;
    while (log->append(envelope("m" + std::to_string(accepted), std::string(700, 'p')))) {
      ++accepted;
      commit();
    }
    return accepted;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_FIXTURE_TEST_CASE(mail_is_taken_only_when_the_reserve_is_on_the_disk, Queue) {
  FaultStorage small;
  small.capacity = 4;
  auto opened = QueueLog::open(small, options, clock, random);
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(!(*opened)->has_space());
  BOOST_TEST((*opened)->append(envelope("m")).error().is(QueueLogError::no_space));
}

BOOST_FIXTURE_TEST_CASE(a_start_that_finds_no_segment_says_how_much_room_it_needs, Queue) {
  FaultStorage full;
  full.capacity = 1;  // the restart positions
  auto refused = QueueLog::open(full, options, clock, random);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is(QueueLogError::no_space));
  const std::string told = refused.error().message();
  const std::uint64_t bytes = 2 * options.segment_size;
  BOOST_TEST(told.find(std::to_string(bytes) + " bytes of disk space are needed to start") != std::string::npos, told);
  full.capacity += bytes / options.segment_size;  // as told
  BOOST_TEST(QueueLog::open(full, options, clock, random).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_recovery_says_when_it_waits_for_space_and_not_when_it_waits_for_the_writer, Disk) {
  recover();
  constexpr int kMany = 60;
  for (int i = 0; i < kMany; ++i) {
    const Envelope e = envelope("b" + std::to_string(i), std::string(700, 'p'));
    const auto a = accept(e);
    BOOST_REQUIRE(log->work().start(e.queue_id, a.place, a.bytes).has_value());
  }
  log->commits().flush();
  commit();
  log.reset();
  disk = disk.cut(FaultStorage::Cut::kill, random);
  // The free segments go, and the disk has room for one.
  for (Slot slot = 1; slot < 100; ++slot)
    if (disk.has(slot) && disk.content(slot).find_first_not_of('\0') == std::string::npos) disk.lose(slot);
  disk.capacity = disk.slots() + 1;
  options.max_batch = 4096;
  open();
  // It comes to a halt twice: first because what was gathered has to be written, then for want of a segment.
  const auto write = [&] {
    log->commits().flush();
    commit();
  };
  bool waited_for_writer = false;
  for (int step = 0; step < 1000 && !log->restart().report().waits_for_space; ++step) {
    const auto appended = log->figures().appended_bytes;
    BOOST_REQUIRE(*log->restart().step(1 << 20) == Recovery::reading);
    waited_for_writer |= !log->restart().report().waits_for_space && log->figures().appended_bytes == appended;
    if (step % 3 == 2) write();
  }
  BOOST_TEST(waited_for_writer);
  BOOST_TEST(log->restart().report().waits_for_space);
  disk.capacity = SIZE_MAX;
  clock.advance(seconds(2));
  for (int step = 0; step < 1000 && *log->restart().step(1 << 20) == Recovery::reading; ++step) write();
  write();
  BOOST_TEST((log->restart().stage() == Recovery::done));
  BOOST_TEST(!log->restart().report().waits_for_space);
  BOOST_TEST(log->restart().report().working == std::uint64_t{kMany});
}

// Each round all messages are begun and one is deferred, then the process is killed: before its recovery has ended, or
// after.
BOOST_FIXTURE_TEST_CASE(a_crash_loop_does_not_eat_a_full_disk, Disk) {
  disk.capacity = disk.slots() + 2;
  options.reserve = 16384;
  options.save_every = 1 << 20;
  restart(FaultStorage::Cut::kill);
  const std::size_t accepted = fill();
  BOOST_TEST(accepted > 10u);
  const auto free = log->figures().segments_free;
  for (int round = 0; round < 200; ++round) {
    log.reset();
    disk = disk.cut(round % 3 == 0 ? FaultStorage::Cut::all : FaultStorage::Cut::kill, random);
    open();
    if (round % 4 == 3) {
      BOOST_REQUIRE(log->restart().step(2000).has_value());
      commit();
      log->commits().flush();
      commit();
      continue;
    }
    recover();
    clock.advance(seconds(100));
    std::optional<Stored> last;
    for (const LogId id : {kJournal, kFirstRetry})
      while (auto m = due(id)) {
        BOOST_REQUIRE(log->work().start(*m).has_value());
        last = m;
      }
    BOOST_REQUIRE(last.has_value());
    BOOST_REQUIRE(log->work().defer(last->envelope.queue_id, kFirstRetry, last->envelope).has_value());
    log->commits().flush();
    commit();
    BOOST_REQUIRE_GT(log->figures().segments_free + 6, free);
  }
  restart(FaultStorage::Cut::all);
  std::set<std::string> there;
  for (auto scan = log->scan(); !scan->done();)
    for (const auto& listed : *scan->step(100)) there.insert(listed.queue_id);
  BOOST_TEST(there.size() == accepted);
}

// Each round recovery ends, and only a few of many messages are begun before the process is killed: the others wait
// where they are, and so each segment that a round left holds a few.
BOOST_FIXTURE_TEST_CASE(a_crash_loop_that_begins_few_of_many_does_not_eat_a_full_disk, Disk) {
  disk.capacity = disk.slots() + 12;
  options.reserve = 16384;
  options.save_every = 1 << 20;
  restart(FaultStorage::Cut::kill);
  const std::size_t accepted = fill();
  BOOST_TEST(accepted > 100u);
  std::size_t least = SIZE_MAX;
  // Some go through all of them several times.
  for (int round = 0; round < 1000; ++round) {
    restart(round % 3 == 0 ? FaultStorage::Cut::all : FaultStorage::Cut::kill);
    for (std::uint64_t n = random.below(round < 500 ? 4 : 20); n > 0; --n) {
      auto m = due();
      BOOST_REQUIRE(m.has_value());
      BOOST_REQUIRE(log->work().start(*m).has_value());
    }
    log->commits().flush();
    commit();
    least = std::min(least, log->figures().segments_free);
  }
  BOOST_TEST_MESSAGE("at least " << least << " segments were free");
  BOOST_TEST(least >= 1u);
  restart(FaultStorage::Cut::all);
  std::set<std::string> there;
  for (auto scan = log->scan(); !scan->done();)
    for (const auto& listed : *scan->step(100)) there.insert(listed.queue_id);
  BOOST_TEST(there.size() == accepted);
}

BOOST_FIXTURE_TEST_CASE(a_full_disk_refuses_new_mail_and_is_drained_by_deliveries, Queue) {
  recover();
  disk.capacity = disk.slots() + 3;
  int accepted = 0;
  for (;; ++accepted) {
    BOOST_REQUIRE_LT(accepted, 10000);
    auto a = log->append(envelope("m" + std::to_string(accepted), std::string(2000, 'p')));
    if (!a) {
      BOOST_TEST(a.error().is(QueueLogError::no_space));
      break;
    }
    commit();
  }
  BOOST_TEST(!log->has_space());
  int delivered = 0;
  while (auto m = due()) {
    const std::string id = m->envelope.queue_id;
    BOOST_REQUIRE(log->work().start(*m).has_value());
    if (delivered % 5 == 0) {
      BOOST_REQUIRE(log->work().defer(id, kFirstRetry, m->envelope).has_value());
    } else {
      BOOST_REQUIRE(log->work().delivered(id, OrdinalSet::one(0), "ok").has_value());
      BOOST_REQUIRE(log->work().finish(id).has_value());
    }
    commit();
    ++delivered;
  }
  BOOST_TEST(delivered == accepted);
  log->commits().save_positions();
  commit();
  BOOST_TEST(log->has_space());
  accept(envelope("again"));
}

// More is being worked on than Options::reserve and the segments for logs and restarts hold: the reserve has grown
// with it.
BOOST_FIXTURE_TEST_CASE(all_that_is_worked_on_can_be_deferred_at_once_on_a_full_disk, Disk) {
  options.reserve = 16384;
  for (const bool killed : {false, true}) {
    disk = FaultStorage();
    open();
    recover();
    constexpr int kMany = 400;
    std::vector<Envelope> begun;
    for (int i = 0; i < kMany; ++i) {
      BOOST_REQUIRE(log->work().may_begin());
      begun.push_back(envelope("b" + std::to_string(i), std::string(700, 'p')));
      const auto a = accept(begun.back());
      BOOST_REQUIRE(log->work().start(begun.back().queue_id, a.place, a.bytes).has_value());
      commit();
    }
    disk.capacity = disk.slots();
    BOOST_TEST(fill() > 0u);
    BOOST_TEST(!log->work().may_begin());
    std::set<std::string> left;
    if (killed) {
      restart(FaultStorage::Cut::kill);
    } else {
      for (const Envelope& e : begun) BOOST_REQUIRE(log->work().defer(e.queue_id, kFirstRetry, e).has_value());
      log->commits().flush();
      commit();
      clock.advance(seconds(400));
      BOOST_TEST(log->work().may_begin());
    }
    for (auto scan = log->scan(); !scan->done();)
      for (const auto& listed : *scan->step(100)) left.insert(listed.queue_id);
    for (const Envelope& e : begun) BOOST_TEST(left.contains(e.queue_id), e.queue_id);
    // And it drains from there.
    for (const LogId id : {kJournal, kFirstRetry})
      while (auto m = due(id)) {
        BOOST_REQUIRE(log->work().may_begin());
        BOOST_REQUIRE(log->work().start(*m).has_value());
        BOOST_REQUIRE(log->work().finish(m->envelope.queue_id).has_value());
        commit();
      }
    log->commits().save_positions();
    commit();
    BOOST_TEST(log->has_space());
    accept(envelope("again"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
