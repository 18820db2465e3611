#include "lib/queue_log/queue_log.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "lib/queue_log/breakage.h"
#include "lib/queue_log/scan.h"
#include "lib/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::ManualClock;

namespace {

struct Queue {
  Random random{42};
  ManualClock clock;
  FaultStorage disk;
  std::unique_ptr<QueueLog> log;
  Options options;

  Queue() {
    options.segment_size = 16384;
    options.intervals = {seconds(300), seconds(600)};
    options.reserve = 0;
    options.save_every = 65536;
    open();
  }
  void open() {
    log.reset();
    auto opened = QueueLog::open(disk, options, clock, random);
    BOOST_REQUIRE(opened.has_value());
    log = *std::move(opened);
  }
  void commit() {
    while (auto batch = log->next_batch()) {
      auto executed = batch->execute(disk);
      BOOST_REQUIRE(log->complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  void recover() {
    while (*log->recover_step(4096) == Recovery::reading) commit();
    commit();
    BOOST_REQUIRE(log->recovery() == Recovery::done);
  }
  void restart(FaultStorage::Cut how) {
    log.reset();
    disk = disk.cut(how, random);
    open();
    recover();
  }
  static Envelope envelope(std::string id, std::string payload = "hello", std::uint32_t n = 1) {
    Envelope e;
    e.queue_id = std::move(id);
    e.recipients = n;
    e.remaining = OrdinalSet::span(0, n);
    e.sender = "a@example.org";
    e.domains = {"example.com"};
    e.payload = std::move(payload);
    return e;
  }
  QueueLog::Appended accept(const Envelope& e) {
    auto a = log->append(e);
    BOOST_REQUIRE(a.has_value());
    commit();
    BOOST_REQUIRE_GE(log->committed(), a->ticket);
    return *a;
  }
  std::optional<Stored> due(LogId id = kJournal) {
    for (int i = 0; i < 10000; ++i) {
      auto d = log->next_due(id, clock.wall_now());
      BOOST_REQUIRE(d.has_value());
      if (d->message) return d->message;
      if (!d->more && !(d->next && *d->next <= clock.wall_now())) return std::nullopt;
      commit();
    }
    BOOST_FAIL("the runner does not come to an end");
    return std::nullopt;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_FIXTURE_TEST_CASE(an_acknowledged_message_is_there_after_a_power_cut, Queue) {
  recover();
  accept(envelope("one", "body"));
  restart(FaultStorage::Cut::none);
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "one");
  BOOST_TEST(m->envelope.payload == "body");
  BOOST_TEST(m->generation == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_finished_message_does_not_come_back, Queue) {
  recover();
  accept(envelope("one"));
  BOOST_REQUIRE(log->start(*due()).has_value());
  BOOST_TEST(!due().has_value());
  BOOST_REQUIRE(log->delivered("one", OrdinalSet::one(0), "250 ok").has_value());
  BOOST_REQUIRE(log->finish("one").has_value());
  commit();
  restart(FaultStorage::Cut::none);
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_message_being_worked_on_comes_back_without_delivered_recipients, Queue) {
  recover();
  accept(envelope("one", "body", 3));
  BOOST_REQUIRE(log->start(*due()).has_value());
  BOOST_REQUIRE(log->delivered("one", OrdinalSet::one(1), "250 ok").has_value());
  commit();
  restart(FaultStorage::Cut::all);
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->generation == 1u);
  BOOST_TEST(!m->envelope.remaining.contains(1));
  BOOST_TEST(m->envelope.remaining.count() == 2u);
  BOOST_REQUIRE_EQUAL(m->results.size(), 1u);
  BOOST_TEST(m->results[0].payload == "250 ok");
}

BOOST_FIXTURE_TEST_CASE(a_deferred_message_is_due_after_its_interval_in_its_retry_log, Queue) {
  recover();
  accept(envelope("one"));
  BOOST_REQUIRE(log->start(*due()).has_value());
  BOOST_REQUIRE(log->defer("one", kFirstRetry, envelope("one", "second")).has_value());
  log->flush();
  commit();
  BOOST_TEST(!due(kFirstRetry).has_value());
  clock.advance(seconds(299));
  BOOST_TEST(!due(kFirstRetry).has_value());
  clock.advance(seconds(1));
  auto m = due(kFirstRetry);
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.payload == "second");
  BOOST_TEST(m->generation == 1u);
  BOOST_REQUIRE(log->start(*m).has_value());
  BOOST_REQUIRE(log->finish("one").has_value());
  log->flush();
  commit();
  restart(FaultStorage::Cut::all);
  clock.advance(seconds(1000));
  BOOST_TEST(!due(kFirstRetry).has_value());
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(new_mail_is_accepted_before_recovery_has_ended, Queue) {
  recover();
  accept(envelope("one"));
  log.reset();
  disk = disk.cut(FaultStorage::Cut::none, random);
  open();
  accept(envelope("two"));
  BOOST_TEST(!log->next_due(kJournal, clock.wall_now()).has_value());
  recover();
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "one");
  BOOST_REQUIRE(log->start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "two");
}

BOOST_FIXTURE_TEST_CASE(an_id_is_accepted_once_also_over_a_restart, Queue) {
  recover();
  const auto first = accept(envelope("one"));
  auto again = log->append(envelope("one"));
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(again->duplicate);
  BOOST_TEST(again->ticket == first.ticket);
  restart(FaultStorage::Cut::none);
  again = log->append(envelope("one"));
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(again->duplicate);
}

/// A receiver had no answer from the process that died and sends again, before recovery has read the id.
BOOST_AUTO_TEST_CASE(an_id_that_is_sent_again_before_recovery_has_read_it_is_one_message) {
  for (const bool committed : {false, true}) {
    Queue q;
    q.recover();
    for (const char* id : {"waits", "worked on", "finished", "deferred"})
      q.accept(Queue::envelope(id, "hello", 2));
    for (int i = 0; i < 4; ++i) {
      auto m = q.due();
      BOOST_REQUIRE(m.has_value());
      const std::string& id = m->envelope.queue_id;
      BOOST_REQUIRE(q.log->start(*m).has_value());
      if (id == "waits") BOOST_REQUIRE(q.log->release(id, m->envelope).has_value());
      if (id == "worked on")
        BOOST_REQUIRE(q.log->delivered(id, OrdinalSet::one(0), "ok").has_value());
      if (id == "finished") BOOST_REQUIRE(q.log->finish(id).has_value());
      if (id == "deferred") BOOST_REQUIRE(q.log->defer(id, kFirstRetry, m->envelope).has_value());
    }
    q.log->flush();
    q.commit();
    q.log.reset();
    q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
    q.open();
    for (const char* id : {"waits", "worked on", "finished", "deferred"}) {
      auto again = q.log->append(Queue::envelope(id, "hello", 2));
      BOOST_REQUIRE(again.has_value());
      BOOST_TEST(!again->duplicate);  // it cannot know yet
      if (committed) q.commit();
    }
    q.recover();
    q.clock.advance(seconds(400));
    std::map<std::string, OrdinalSet> run;
    for (const LogId id : {kJournal, kFirstRetry}) {
      while (auto m = q.due(id)) {
        BOOST_TEST_CONTEXT(m->envelope.queue_id)
        BOOST_TEST(run.emplace(m->envelope.queue_id, m->envelope.remaining).second);
        BOOST_REQUIRE(q.log->start(*m).has_value());
      }
    }
    BOOST_TEST(run.size() == 3u);
    BOOST_TEST(!run.contains("finished"));
    BOOST_TEST((run["worked on"] == OrdinalSet::one(1)));
  }
}

BOOST_FIXTURE_TEST_CASE(a_message_longer_than_a_segment_is_stored_in_parts, Queue) {
  recover();
  const std::string big(50000, 'x');
  accept(envelope("big", big, 1000));
  accept(envelope("small"));
  restart(FaultStorage::Cut::none);
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST((m->envelope.payload == big));
  BOOST_REQUIRE(log->start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "small");
}

BOOST_FIXTURE_TEST_CASE(segments_are_used_again_in_steady_state, Queue) {
  recover();
  for (int i = 0; i < 2000; ++i) {
    const std::string id = "m" + std::to_string(i);
    const auto a = accept(envelope(id, std::string(900, 'p')));
    BOOST_REQUIRE(log->start(id, a.place).has_value());
    BOOST_REQUIRE(log->delivered(id, OrdinalSet::one(0), "ok").has_value());
    BOOST_REQUIRE(log->finish(id).has_value());
  }
  commit();
  BOOST_TEST(disk.slots() < 30u);
  BOOST_TEST(log->working_count() == 0u);
}

BOOST_FIXTURE_TEST_CASE(mail_is_taken_only_when_the_reserve_is_on_the_disk, Queue) {
  FaultStorage small;
  small.capacity = 4;
  auto opened = QueueLog::open(small, options, clock, random);
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(!(*opened)->has_space());
  BOOST_TEST((*opened)->append(envelope("m")).error().is(QueueLogError::no_space));
}

// A retry log's runner reaches what is durable while the seal behind it is still to be written.
BOOST_FIXTURE_TEST_CASE(a_runner_that_catches_up_with_a_log_takes_no_unsealed_segment_for_damage,
                        Queue) {
  recover();
  for (int i = 0; i < 40; ++i) {
    const std::string id = "m" + std::to_string(i);
    accept(envelope(id));
    BOOST_REQUIRE(log->start(*due()).has_value());
    BOOST_REQUIRE(log->defer(id, kFirstRetry, envelope(id, std::string(900, 'p'))).has_value());
    log->flush();
    if (i % 3 == 2) commit();
    clock.advance(seconds(400));
    // Not by due(), which commits until the runner has seen all.
    BOOST_REQUIRE(log->next_due(kFirstRetry, clock.wall_now()).has_value());
    if (auto again = due(kFirstRetry)) {
      BOOST_REQUIRE(log->start(*again).has_value());
      BOOST_REQUIRE(log->finish(again->envelope.queue_id).has_value());
    }
    BOOST_REQUIRE_EQUAL(log->report().damage_count, 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_start_that_finds_no_segment_says_how_much_room_it_needs, Queue) {
  FaultStorage full;
  full.capacity = 1;  // the restart positions
  auto refused = QueueLog::open(full, options, clock, random);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is(QueueLogError::no_space));
  const std::string told = refused.error().message();
  const std::uint64_t bytes = 2 * options.segment_size;
  BOOST_TEST(told.find(std::to_string(bytes) + " bytes of disk space are needed to start") !=
                 std::string::npos,
             told);
  full.capacity += bytes / options.segment_size;  // as told
  BOOST_TEST(QueueLog::open(full, options, clock, random).has_value());
}

// Each round all messages are begun and one is deferred, then the process is killed: before its recovery has ended, or
// after.
BOOST_FIXTURE_TEST_CASE(a_crash_loop_does_not_eat_a_full_disk, Queue) {
  disk.capacity = disk.slots() + 2;
  options.reserve = 16384;
  options.save_every = 1 << 20;
  restart(FaultStorage::Cut::kill);
  std::size_t accepted = 0;
  while (log->append(envelope("m" + std::to_string(accepted), std::string(700, 'p')))) {
    ++accepted;
    commit();
  }
  BOOST_TEST(accepted > 10u);
  const auto free = log->figures().segments_free;
  for (int round = 0; round < 200; ++round) {
    log.reset();
    disk = disk.cut(round % 3 == 0 ? FaultStorage::Cut::all : FaultStorage::Cut::kill, random);
    open();
    if (round % 4 == 3) {
      BOOST_REQUIRE(log->recover_step(2000).has_value());
      commit();
      log->flush();
      commit();
      continue;
    }
    recover();
    clock.advance(seconds(100));
    std::optional<Stored> last;
    for (const LogId id : {kJournal, kFirstRetry})
      while (auto m = due(id)) {
        BOOST_REQUIRE(log->start(*m).has_value());
        last = m;
      }
    BOOST_REQUIRE(last.has_value());
    BOOST_REQUIRE(log->defer(last->envelope.queue_id, kFirstRetry, last->envelope).has_value());
    log->flush();
    commit();
    BOOST_REQUIRE_GT(log->figures().segments_free + 6, free);
  }
  restart(FaultStorage::Cut::all);
  std::set<std::string> there;
  for (auto scan = log->scan(); !scan->done();)
    for (const auto& listed : *scan->step(100)) there.insert(listed.queue_id);
  BOOST_TEST(there.size() == accepted);
}

// Each round recovery ends, and only a few of many messages are begun before the process is killed: the others wait where
// they are, and so each segment that a round left holds a few.
BOOST_FIXTURE_TEST_CASE(a_crash_loop_that_begins_few_of_many_does_not_eat_a_full_disk, Queue) {
  disk.capacity = disk.slots() + 12;
  options.reserve = 16384;
  options.save_every = 1 << 20;
  restart(FaultStorage::Cut::kill);
  std::size_t accepted = 0;
  while (log->append(envelope("m" + std::to_string(accepted), std::string(700, 'p')))) {
    ++accepted;
    commit();
  }
  BOOST_TEST(accepted > 100u);
  std::size_t least = SIZE_MAX;
  // Some go through all of them several times.
  for (int round = 0; round < 1000; ++round) {
    restart(round % 3 == 0 ? FaultStorage::Cut::all : FaultStorage::Cut::kill);
    for (std::uint64_t n = random.below(round < 500 ? 4 : 20); n > 0; --n) {
      auto m = due();
      BOOST_REQUIRE(m.has_value());
      BOOST_REQUIRE(log->start(*m).has_value());
    }
    log->flush();
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
    BOOST_REQUIRE(log->start(*m).has_value());
    if (delivered % 5 == 0) {
      BOOST_REQUIRE(log->defer(id, kFirstRetry, m->envelope).has_value());
    } else {
      BOOST_REQUIRE(log->delivered(id, OrdinalSet::one(0), "ok").has_value());
      BOOST_REQUIRE(log->finish(id).has_value());
    }
    commit();
    ++delivered;
  }
  BOOST_TEST(delivered == accepted);
  log->save_positions();
  commit();
  BOOST_TEST(log->has_space());
  accept(envelope("again"));
}

BOOST_FIXTURE_TEST_CASE(a_flipped_bit_costs_one_record_and_is_reported, Queue) {
  recover();
  accept(envelope("one", std::string(300, 'a')));
  const auto two = accept(envelope("two", std::string(300, 'b')));
  accept(envelope("three", std::string(300, 'c')));
  const Slot slot = 1;
  disk.flip(slot, two.place.position.offset + 100, 0x10);
  restart(FaultStorage::Cut::none);
  BOOST_REQUIRE_EQUAL(log->report().damage.size(), 1u);
  BOOST_TEST(log->report().damage[0].offset == two.place.position.offset);
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "one");
  BOOST_REQUIRE(log->start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "three");
}

BOOST_FIXTURE_TEST_CASE(unreadable_positions_cost_a_full_read_and_no_message, Queue) {
  recover();
  accept(envelope("one"));
  accept(envelope("two"));
  BOOST_REQUIRE(log->start(*due()).has_value());
  BOOST_REQUIRE(log->defer("one", kFirstRetry, envelope("one")).has_value());
  log->save_positions();
  commit();
  for (std::uint64_t copy = 0; copy < 2; ++copy)
    disk.flip(kPositionsSlot, copy * 256 * 1024 + 30, 1);
  restart(FaultStorage::Cut::none);
  BOOST_TEST(!log->report().positions_found);
  BOOST_TEST(log->report().damage_count == 1u);
  BOOST_TEST(due()->envelope.queue_id == "two");
  clock.advance(seconds(300));
  BOOST_TEST(due(kFirstRetry)->envelope.queue_id == "one");
}

BOOST_FIXTURE_TEST_CASE(a_lost_segment_is_reported_and_the_rest_lives, Queue) {
  recover();
  for (int i = 0; i < 30; ++i) accept(envelope("m" + std::to_string(i), std::string(2000, 'x')));
  log->save_positions();
  commit();
  disk.lose(1);
  restart(FaultStorage::Cut::none);
  BOOST_TEST(log->report().damage_count >= 1u);
  BOOST_TEST(due().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_clock_set_back_does_not_hold_up_the_retry_logs, Queue) {
  recover();
  accept(envelope("one"));
  BOOST_REQUIRE(log->start(*due()).has_value());
  BOOST_REQUIRE(log->defer("one", kFirstRetry, envelope("one")).has_value());
  log->flush();
  commit();
  clock.step_wall(-std::chrono::hours(24 * 365));
  bool found = due(kFirstRetry).has_value();
  for (int i = 0; i < 10 && !found; ++i) {
    clock.advance(seconds(60));
    found = due(kFirstRetry).has_value();
  }
  BOOST_TEST(found);
}

BOOST_FIXTURE_TEST_CASE(mail_that_looks_like_records_is_only_a_payload, Queue) {
  recover();
  accept(envelope("one", "first"));
  std::string forged = disk.content(1).substr(1024, 200);  // a valid record of this very segment
  for (int i = 0; i < 5; ++i) forged += forged.substr(0, 200);
  accept(envelope("two", forged));
  restart(FaultStorage::Cut::none);
  BOOST_TEST(log->report().damage_count == 0u);
  auto m = due();
  BOOST_REQUIRE(log->start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST((m->envelope.payload == forged));
}

/// All intervals in one log: each runner finds its own messages, in order, whatever lies between them.
struct SingleLog : Queue {
  SingleLog() {
    log.reset();
    disk = FaultStorage();
    options.retry_logs = RetryLogs::single;
    options.intervals = {seconds(300), seconds(600), seconds(1200)};
    open();
    recover();
  }
  static constexpr LogId k300 = kFirstRetry, k600 = kFirstRetry + 1, k1200 = kFirstRetry + 2;
  /// Accepts a message, or takes up the one given, and defers it.
  void defer(const std::string& id, LogId interval, std::size_t bytes = 5) {
    accept(envelope(id));
    BOOST_REQUIRE(log->start(*due()).has_value());
    again(id, interval, bytes);
  }
  void again(const std::string& id, LogId interval, std::size_t bytes = 5) {
    BOOST_REQUIRE(log->defer(id, interval, envelope(id, std::string(bytes, 'x'))).has_value());
    log->flush();
    commit();
  }
  std::string take(LogId interval) {
    auto m = due(interval);
    if (!m) return {};
    BOOST_REQUIRE(log->start(*m).has_value());
    return m->envelope.queue_id;
  }
};

BOOST_FIXTURE_TEST_CASE(runners_of_one_log_pass_over_what_belongs_to_the_others, SingleLog) {
  defer("a", k1200);
  defer("b", k300);
  defer("c", k600);
  defer("d", k300);
  BOOST_TEST(take(k300) == "");
  clock.advance(seconds(300));
  BOOST_TEST(take(k300) == "b");
  BOOST_TEST(take(k300) == "d");
  BOOST_TEST(take(k300) == "");
  BOOST_TEST(take(k600) == "");
  again("b", k600);
  clock.advance(seconds(300));
  BOOST_TEST(take(k600) == "c");
  BOOST_TEST(take(k600) == "");
  clock.advance(seconds(600));
  BOOST_TEST(take(k600) == "b");
  BOOST_TEST(take(k1200) == "a");
  BOOST_TEST(take(k1200) == "");
}

BOOST_FIXTURE_TEST_CASE(a_single_log_gives_back_what_lies_behind_its_slowest_runner, SingleLog) {
  defer("old", k1200);
  for (int i = 0; i < 20; ++i) {
    defer("m" + std::to_string(i), k300, 3000);
    clock.advance(seconds(300));
    BOOST_REQUIRE(take(k300) == "m" + std::to_string(i));
    BOOST_REQUIRE(log->finish("m" + std::to_string(i)).has_value());
  }
  const auto settle = [&] {
    for (int i = 0; i < 3; ++i) {
      log->save_positions();
      commit();
    }
  };
  settle();
  const auto held = log->figures().segments_used;
  BOOST_TEST(take(k1200) == "old");
  due(k600);  // with nothing of its own it goes to the end
  due(k1200);
  settle();
  const auto pinned = log->figures().segments_used;
  BOOST_TEST(pinned <= held);  // the envelope's segment stays while its work lasts
  BOOST_REQUIRE(log->finish("old").has_value());
  settle();
  settle();
  BOOST_TEST(log->figures().segments_used + 3 <= held);
}

BOOST_FIXTURE_TEST_CASE(a_queue_in_one_form_is_run_in_the_other_and_with_other_intervals,
                        SingleLog) {
  defer("a", k1200);
  defer("b", k300);
  defer("c", k600);
  options.intervals = {seconds(500), seconds(700)};
  restart(FaultStorage::Cut::none);
  clock.advance(seconds(300));
  BOOST_TEST(take(kFirstRetry) == "b");
  defer("d", kFirstRetry + 1);
  log->save_positions();
  commit();
  options.retry_logs = RetryLogs::many;
  restart(FaultStorage::Cut::none);
  clock.advance(seconds(10000));
  std::multiset<std::string> found;
  for (LogId id = 0; id < log->log_count(); ++id) {
    if (id == kHold) continue;
    for (std::string one = take(id); !one.empty(); one = take(id)) found.insert(one);
  }
  BOOST_TEST((found == std::multiset<std::string>{"a", "b", "c", "d"}));
}

/// The runner's reader was made when the log ended in a segment that is sealed by the time it gets there.
BOOST_FIXTURE_TEST_CASE(a_log_that_goes_on_while_it_is_read_is_not_taken_for_damaged, Queue) {
  recover();
  const LogId retry = log->retry_log_for(seconds(300));
  const auto defer = [&](const std::string& id) {
    accept(envelope(id));
    BOOST_REQUIRE(log->start(*due()).has_value());
    BOOST_REQUIRE(log->defer(id, retry, envelope(id, std::string(2000, 'x'))).has_value());
    commit();
  };
  defer("first");
  clock.advance(seconds(300));
  const auto first = due(retry);
  BOOST_REQUIRE(first.has_value());
  for (int i = 0; i < 20; ++i) defer("later" + std::to_string(i));
  BOOST_REQUIRE(log->start(*first).has_value());
  commit();
  clock.advance(seconds(300));
  for (int i = 0; i < 20; ++i) {
    const auto later = due(retry);
    BOOST_REQUIRE(later.has_value());
    BOOST_TEST(later->envelope.queue_id == "later" + std::to_string(i));
    BOOST_REQUIRE(log->start(*later).has_value());
  }
  BOOST_TEST(!due(retry).has_value());
  BOOST_TEST(log->report().damage.empty());
}

BOOST_AUTO_TEST_SUITE_END()
