// Copies of a queue log that goes on meanwhile: nothing that was taken before is missing, nothing that was over comes
// back.
#include "lib/queue/queue_log/log_copy.h"

#include <set>

#include "lib/queue/queue_log/queue_fixture.h"
#include "lib/queue/queue_log/scan.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

/// A queue in which anything may happen next, and what is known of its messages.
struct Busy : Queue {
  std::set<std::string> alive;  // accepted, durably, and not over
  std::set<std::string> over;   // durably
  int number = 0;

  explicit Busy(std::uint64_t seed) {
    log.reset();
    random = Random(seed);
    disk = FaultStorage();
    options.save_every = 20000;
    open();
    recover();
  }
  bool positions_are_still() const { return !log->commits().saving(); }
  void take_new() {
    const std::string id = "m" + std::to_string(++number);
    auto appended = log->append(envelope(id, std::string(random.below(3000), 'p')));
    if (!appended) return;
    commit();
    alive.insert(id);
  }
  void work_on(LogId from) {
    auto next = log->runners().next_due(from, clock.wall_now());
    BOOST_REQUIRE(next.has_value());
    if (!next->message || !log->work().start(*next->message)) return;
    const std::string id = next->message->envelope.queue_id;
    switch (random.below(4)) {
      case 0:
      case 1: {
        auto said = log->work().delivered(id, OrdinalSet::span(0, 1), "ok");
        BOOST_REQUIRE(said.has_value());
        BOOST_REQUIRE(log->work().finish(id).has_value());
        commit();
        BOOST_REQUIRE_GE(log->commits().committed(), *said);
        alive.erase(id);
        over.insert(id);
        break;
      }
      case 2:
        BOOST_REQUIRE(
            log->work().defer(id, kFirstRetry + static_cast<LogId>(random.below(2)), envelope(id)).has_value());
        break;
      default:
        if (random.chance(0.5)) {
          BOOST_REQUIRE(log->work().hold(id, envelope(id)).has_value());
        } else {
          BOOST_REQUIRE(log->work().release(id, envelope(id)).has_value());
        }
    }
  }
  void go_on(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (random.below(6)) {
        case 0:
        case 1:
          take_new();
          break;
        case 2:
          clock.advance(seconds(100));
          work_on(kFirstRetry + static_cast<LogId>(random.below(2)));
          break;
        case 3:
          log->commits().flush();
          commit();
          break;
        default:
          work_on(kJournal);
      }
      if (random.chance(0.2)) commit();
    }
  }
  void settle() {
    for (int i = 0; i < 50 && !positions_are_still(); ++i) commit();
    BOOST_REQUIRE(positions_are_still());
  }
};

/// What a start of the copy finds to be done.
std::multiset<std::string> started(FaultStorage copied, Random& random) {
  Queue q;
  q.log.reset();
  q.disk = copied.cut(FaultStorage::Cut::none, random);
  q.open();
  q.recover();
  BOOST_TEST(q.log->restart().report().damage_count == 0U);
  std::multiset<std::string> ids;
  for (auto scan = q.log->scan(InTransit::shown); !scan->done();) {
    auto some = scan->step(100);
    BOOST_REQUIRE(some.has_value());
    for (const auto& l : *some)
      if (l.remaining != 0) ids.insert(l.queue_id);
  }
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_AUTO_TEST_CASE(a_copy_made_while_the_log_goes_on_has_what_was_there_and_nothing_that_was_over) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Busy q(seed);
      q.go_on(static_cast<int>(q.random.below(150)));
      q.log->commits().flush();
      q.commit();
      q.log->commits().hold_positions();
      q.settle();
      const auto before = q.alive, over_before = q.over;
      const auto save = q.log->commits().last_save();
      FaultStorage target;
      LogCopy copy(q.disk, target);
      BOOST_REQUIRE(copy.begin(q.log->commits().durable_ends()).has_value());
      for (bool more = true; more;) {
        q.go_on(static_cast<int>(q.random.below(12)));
        auto went = copy.step(3000);
        BOOST_REQUIRE(went.has_value());
        more = *went;
      }
      q.go_on(10);
      q.commit();
      const auto at_cut = q.alive, over_at_cut = q.over;
      const LogEnds ends = q.log->commits().durable_ends();
      q.go_on(static_cast<int>(q.random.below(30)));  // between the answer and what the copier does with it
      BOOST_REQUIRE(copy.finish(ends).has_value());
      BOOST_TEST(q.log->commits().last_save() == save);
      BOOST_TEST(!q.log->commits().saving());
      q.log->commits().release_positions();
      q.go_on(20);

      const auto there = started(std::move(target), q.random);
      for (const std::string& id : before)
        BOOST_TEST((there.contains(id) || over_at_cut.contains(id)), id << " is lost");
      for (const std::string& id : at_cut) BOOST_TEST(there.contains(id), id << " is lost, which was there at the end");
      for (const std::string& id : over_at_cut) BOOST_TEST(!there.contains(id), id << " would come a second time");
      for (const std::string& id : there) BOOST_TEST(there.count(id) == 1U, id << " is there twice");
    }
  }
}

BOOST_AUTO_TEST_CASE(marks_of_the_time_after_the_cut_are_not_in_the_copy) {
  Busy q(11);
  // What the log itself would write once its messages are worked on, at the worst moment.
  const auto mark = [&](const Position& at) {
    for (const auto& info : *q.disk.list()) {
      std::string block(kDataStart, '\0');
      if (info.slot == kPositionsSlot) continue;
      BOOST_REQUIRE(q.disk.read(info.slot, 0, {reinterpret_cast<std::byte*>(block.data()), block.size()}).has_value());
      const auto header = decode_segment_header(as_bytes(block));
      if (!header || header->use != at.use) continue;
      std::string word(4, '\0');
      store_le(reinterpret_cast<std::byte*>(word.data()), garbage_mark(*header, at.offset));
      BOOST_REQUIRE(q.disk.write(info.slot, at.offset, as_bytes(word)).has_value());
      return;
    }
    BOOST_FAIL("there is no such segment");
  };
  const auto over = q.accept(Queue::envelope("over")), early = q.accept(Queue::envelope("early"));
  q.log->commits().hold_positions();
  q.settle();
  FaultStorage target;
  LogCopy copy(q.disk, target);
  BOOST_REQUIRE(copy.begin(q.log->commits().durable_ends()).has_value());
  mark(over.place.position);
  for (bool more = true; more;) more = *copy.step(1000);
  const auto late = q.accept(Queue::envelope("late"));
  const LogEnds ends = q.log->commits().durable_ends();
  mark(early.place.position);
  mark(late.place.position);
  BOOST_REQUIRE(copy.finish(ends).has_value());
  const auto there = started(std::move(target), q.random);
  BOOST_TEST(there.contains("early"));
  BOOST_TEST(there.contains("late"));
  BOOST_TEST(!there.contains("over"));
}

BOOST_AUTO_TEST_CASE(while_positions_are_held_nothing_is_saved_and_afterwards_it_is) {
  Busy q(7);
  q.log->commits().hold_positions();
  q.settle();
  const auto save = q.log->commits().last_save();
  q.go_on(300);
  BOOST_TEST(q.log->commits().last_save() == save);
  q.log->commits().hold_positions();
  q.log->commits().release_positions();
  q.log->commits().save_positions();
  q.go_on(20);
  q.commit();
  BOOST_TEST(q.log->commits().last_save() == save);  // it is nested
  q.log->commits().release_positions();
  q.go_on(20);
  q.commit();
  BOOST_TEST(q.log->commits().last_save() > save);
}

BOOST_AUTO_TEST_CASE(on_a_full_disk_a_hold_does_not_keep_segments_from_being_won_back) {
  Busy q(3);
  q.log->commits().hold_positions();
  q.settle();
  const auto save = q.log->commits().last_save();
  q.disk.capacity = q.disk.list()->size();
  for (int i = 0; i < 400 && q.log->commits().last_save() == save; ++i) {
    q.go_on(10);
    q.log->commits().flush();
    q.commit();
  }
  BOOST_TEST(q.log->commits().last_save() > save);
}

BOOST_AUTO_TEST_CASE(a_segment_that_was_moved_away_is_an_error_of_the_copy) {
  Busy q(5);
  for (int i = 0; i < 30; ++i) q.take_new();
  q.log->commits().save_positions();
  q.commit();
  q.settle();
  q.log->commits().hold_positions();
  const auto slots = q.disk.list();
  BOOST_REQUIRE(slots.has_value());
  q.disk.lose((*slots)[1].slot);
  FaultStorage target;
  LogCopy copy(q.disk, target);
  const auto began = copy.begin(q.log->commits().durable_ends());
  BOOST_REQUIRE(!began.has_value());
  BOOST_TEST(began.error().is(QueueLogError::damaged));
}

BOOST_AUTO_TEST_SUITE_END()
