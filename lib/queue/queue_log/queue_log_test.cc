// What becomes of messages, through restarts and damage.
#include <map>
#include <set>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/queue_fixture.h"
#include "lib/queue/queue_log/scan.h"

using namespace pen;
using namespace pen::queue_log;

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
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_TEST(!due().has_value());
  BOOST_REQUIRE(log->work().delivered("one", OrdinalSet::one(0), "250 ok").has_value());
  BOOST_REQUIRE(log->work().finish("one").has_value());
  commit();
  restart(FaultStorage::Cut::none);
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_message_being_worked_on_comes_back_without_delivered_recipients, Queue) {
  recover();
  accept(envelope("one", "body", 3));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().delivered("one", OrdinalSet::one(1), "250 ok").has_value());
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

BOOST_FIXTURE_TEST_CASE(new_mail_is_accepted_before_recovery_has_ended, Queue) {
  recover();
  accept(envelope("one"));
  log.reset();
  disk = disk.cut(FaultStorage::Cut::none, random);
  open();
  accept(envelope("two"));
  BOOST_TEST(!log->runners().next_due(kJournal, clock.wall_now()).has_value());
  recover();
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "one");
  BOOST_REQUIRE(log->work().start(*m).has_value());
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

BOOST_FIXTURE_TEST_CASE(a_duplicate_of_another_arrival_is_told_from_the_message_itself, Queue) {
  recover();
  const Envelope mine = envelope("one");
  Envelope other = mine;
  other.arrived += seconds(1);
  accept(mine);
  const auto look = [&] {
    BOOST_TEST(!log->append(mine)->another);
    BOOST_TEST(log->append(other)->duplicate);
    BOOST_TEST(log->append(other)->another);
  };
  look();
  restart(FaultStorage::Cut::none);
  look();
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  look();
  BOOST_REQUIRE(log->work().finish("one").has_value());
  look();
}

/// A receiver had no answer from the process that died and sends again, before recovery has read the id.
BOOST_AUTO_TEST_CASE(an_id_that_is_sent_again_before_recovery_has_read_it_is_one_message) {
  for (const bool committed : {false, true}) {
    Queue q;
    q.recover();
    for (const char* id : {"waits", "worked on", "finished", "deferred"}) q.accept(Queue::envelope(id, "hello", 2));
    for (int i = 0; i < 4; ++i) {
      auto m = q.due();
      BOOST_REQUIRE(m.has_value());
      const std::string& id = m->envelope.queue_id;
      BOOST_REQUIRE(q.log->work().start(*m).has_value());
      if (id == "waits") BOOST_REQUIRE(q.log->work().release(id, m->envelope).has_value());
      if (id == "worked on") BOOST_REQUIRE(q.log->work().delivered(id, OrdinalSet::one(0), "ok").has_value());
      if (id == "finished") BOOST_REQUIRE(q.log->work().finish(id).has_value());
      if (id == "deferred") BOOST_REQUIRE(q.log->work().defer(id, kFirstRetry, m->envelope).has_value());
    }
    q.log->commits().flush();
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
        BOOST_REQUIRE(q.log->work().start(*m).has_value());
      }
    }
    BOOST_TEST(run.size() == 3u);
    BOOST_TEST(!run.contains("finished"));
    BOOST_TEST((run["worked on"] == OrdinalSet::one(1)));
  }
}

BOOST_FIXTURE_TEST_CASE(renewing_more_than_the_suffix_may_hold_comes_to_an_end, Queue) {
  options.suffix_limit = 32768;
  restart(FaultStorage::Cut::all);
  std::map<std::string, Envelope> working;
  for (int i = 0; i < 100; ++i) {
    const Envelope e = envelope("m" + std::to_string(i), std::string(1000, 'p'));
    accept(e);
    BOOST_REQUIRE(log->work().start(*due()).has_value());
    working[e.queue_id] = e;
  }
  commit();
  log->commits().flush();
  commit();
  int renewed = 0;
  while (auto id = log->work().stale()) {
    BOOST_REQUIRE_LT(++renewed, 1000);
    BOOST_REQUIRE(log->work().renew(*id, working.at(*id)).has_value());
    log->commits().save_positions();
    commit();
  }
  BOOST_TEST(renewed > 0);
  restart(FaultStorage::Cut::none);
  std::size_t left = 0;
  while (auto m = due()) {
    BOOST_REQUIRE(log->work().start(*m).has_value());
    left += working.erase(m->envelope.queue_id);
  }
  BOOST_TEST(left == 100u);
}

BOOST_FIXTURE_TEST_CASE(a_message_that_is_worked_on_is_not_marked_before_that_ends, Queue) {
  recover();
  const auto save = [&] {
    log->commits().flush();
    log->commits().save_positions();
    commit();
  };
  for (int i = 0; i < 40; ++i) {  // thirteen to a segment
    accept(envelope("m" + std::to_string(i), std::string(1000, 'p')));
    BOOST_REQUIRE(log->work().start(*due()).has_value());
  }
  save();
  BOOST_TEST(log->figures().marks_written == 0u);
  BOOST_REQUIRE(log->work().finish("m1").has_value());
  save();
  BOOST_TEST(log->figures().marks_written == 1u);

  restart(FaultStorage::Cut::none);
  std::set<std::string> left;
  while (auto m = due()) {
    BOOST_REQUIRE(log->work().start(*m).has_value());
    left.insert(m->envelope.queue_id);
  }
  BOOST_TEST(left.size() == 39u);
  BOOST_TEST(!left.contains("m1"));
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
  BOOST_REQUIRE(log->work().start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "small");
}

BOOST_FIXTURE_TEST_CASE(segments_are_used_again_in_steady_state, Queue) {
  recover();
  for (int i = 0; i < 2000; ++i) {
    const std::string id = "m" + std::to_string(i);
    const auto a = accept(envelope(id, std::string(900, 'p')));
    BOOST_REQUIRE(log->work().start(id, a.place, a.bytes).has_value());
    BOOST_REQUIRE(log->work().delivered(id, OrdinalSet::one(0), "ok").has_value());
    BOOST_REQUIRE(log->work().finish(id).has_value());
  }
  commit();
  BOOST_TEST(disk.slots() < 30u);
  BOOST_TEST(log->work().working_count() == 0u);
}

// A retry log's runner reaches what is durable while the seal behind it is still to be written.
BOOST_FIXTURE_TEST_CASE(what_a_former_use_of_a_segment_left_is_no_torn_write, Queue) {
  recover();
  for (const std::string id : {"one", "two", "three"}) {
    accept(envelope(id));
    BOOST_REQUIRE(log->work().start(*due()).has_value());
    BOOST_REQUIRE(log->work().delivered(id, OrdinalSet::one(0), "250 ok").has_value());
    BOOST_REQUIRE(log->work().finish(id).has_value());
    commit();
    restart(FaultStorage::Cut::none);
  }
  // Idle from here on: each start uses a segment again that an earlier one wrote to, and writes nothing.
  for (int i = 0; i < 6; ++i) {
    restart(FaultStorage::Cut::none);
    BOOST_TEST(log->restart().report().torn_bytes == 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_runner_that_catches_up_with_a_log_takes_no_unsealed_segment_for_damage, Queue) {
  recover();
  for (int i = 0; i < 40; ++i) {
    const std::string id = "m" + std::to_string(i);
    accept(envelope(id));
    BOOST_REQUIRE(log->work().start(*due()).has_value());
    BOOST_REQUIRE(log->work().defer(id, kFirstRetry, envelope(id, std::string(900, 'p'))).has_value());
    log->commits().flush();
    if (i % 3 == 2) commit();
    clock.advance(seconds(400));
    // Not by due(), which commits until the runner has seen all.
    BOOST_REQUIRE(log->runners().next_due(kFirstRetry, clock.wall_now()).has_value());
    if (auto again = due(kFirstRetry)) {
      BOOST_REQUIRE(log->work().start(*again).has_value());
      BOOST_REQUIRE(log->work().finish(again->envelope.queue_id).has_value());
    }
    BOOST_REQUIRE_EQUAL(log->restart().report().damage_count, 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_flipped_bit_costs_one_record_and_is_reported, Queue) {
  recover();
  accept(envelope("one", std::string(300, 'a')));
  const auto two = accept(envelope("two", std::string(300, 'b')));
  accept(envelope("three", std::string(300, 'c')));
  const Slot slot = 1;
  disk.flip(slot, two.place.position.offset + 100, 0x10);
  restart(FaultStorage::Cut::none);
  BOOST_REQUIRE_EQUAL(log->restart().report().damage.size(), 1u);
  BOOST_TEST(log->restart().report().damage[0].offset == two.place.position.offset);
  auto m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "one");
  BOOST_REQUIRE(log->work().start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.queue_id == "three");
}

BOOST_FIXTURE_TEST_CASE(unreadable_positions_cost_a_full_read_and_no_message, Queue) {
  recover();
  accept(envelope("one"));
  accept(envelope("two"));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("one", kFirstRetry, envelope("one")).has_value());
  log->commits().save_positions();
  commit();
  for (std::uint64_t copy = 0; copy < 2; ++copy) disk.flip(kPositionsSlot, copy * 256 * 1024 + 30, 1);
  restart(FaultStorage::Cut::none);
  BOOST_TEST(!log->restart().report().positions_found);
  BOOST_TEST(log->restart().report().damage_count == 1u);
  BOOST_TEST(due()->envelope.queue_id == "two");
  clock.advance(seconds(300));
  BOOST_TEST(due(kFirstRetry)->envelope.queue_id == "one");
}

BOOST_FIXTURE_TEST_CASE(a_lost_segment_is_reported_and_the_rest_lives, Queue) {
  recover();
  for (int i = 0; i < 30; ++i) accept(envelope("m" + std::to_string(i), std::string(2000, 'x')));
  log->commits().save_positions();
  commit();
  disk.lose(1);
  restart(FaultStorage::Cut::none);
  BOOST_TEST(log->restart().report().damage_count >= 1u);
  BOOST_TEST(due().has_value());
}

BOOST_FIXTURE_TEST_CASE(mail_that_looks_like_records_is_only_a_payload, Queue) {
  recover();
  accept(envelope("one", "first"));
  std::string forged = disk.content(1).substr(1024, 200);  // a valid record of this very segment
  for (int i = 0; i < 5; ++i) forged += forged.substr(0, 200);
  accept(envelope("two", forged));
  restart(FaultStorage::Cut::none);
  BOOST_TEST(log->restart().report().damage_count == 0u);
  auto m = due();
  BOOST_REQUIRE(log->work().start(*m).has_value());
  m = due();
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST((m->envelope.payload == forged));
}

namespace {

/// Three messages; the payload of the second is that long, and of those bytes if they are given.
struct Forgery : Queue {
  QueueLog::Appended second;
  std::size_t payload_at = 0;  // in segment 1
  explicit Forgery(std::string payload) {
    recover();
    accept(envelope("one", "first"));
    second = accept(envelope("two", payload));
    accept(envelope("three"));
    payload_at = disk.content(1).find(payload);
    BOOST_REQUIRE(payload_at != std::string::npos);
  }
};

/// Records by an attacker who knows everything but the key, each at the place that it names: a message, the end of a
/// message that lives, and the end of the segment.
std::string forged_records() {
  const Forgery before(std::string(3000, 'x'));  // the same happens again with the other payload
  const std::string segment = before.disk.content(1);
  const auto use = decode_segment_header(as_bytes(segment))->use;
  EnvelopeBody message;
  message.queue_id = "forged";
  message.recipients = 1;
  message.remaining = OrdinalSet::one(0);
  message.payload = "not ours";
  IndexBody index;
  const std::pair<RecordType, std::string> bodies[] = {
      {RecordType::envelope, encode(message)},
      {RecordType::tombstone, encode(TombstoneBody{"one", 0, {use, kDataStart}})},
      {RecordType::index, encode(index)},
  };
  std::string forged((8 - before.payload_at % 8) % 8, 'x');
  for (int i = 0; forged.size() + 400 < 3000; ++i) {
    // The last one would hide what follows: it comes when the others had their turns.
    const auto& [type, body] = bodies[forged.size() + 600 > 3000 ? 2 : i % 2];
    RecordHeader h;
    h.use = use;
    h.offset = static_cast<std::uint32_t>(before.payload_at + forged.size());
    h.epoch = 1;
    h.type = type;
    h.flags = kFirstPart | kLastPart | (type == RecordType::index ? kSealed : 0);
    encode_record(forged, h, 0, as_bytes(body));
    if (i % 4 == 3) forged += segment.substr(kDataStart, 128);  // whole, key and all, but elsewhere
  }
  forged.resize(3000, 'x');
  return forged;
}

/// Whether one bit flipped in its header costs the message that carries them, and nothing else happens: the reader
/// searches on inside the body.
bool forged_records_stay_payload(std::uint32_t bit) {
  const std::string forged = forged_records();
  Forgery q(forged);
  const Position at = q.second.place.position;
  q.disk.flip(1, at.offset + bit / 8, static_cast<unsigned char>(1U << bit % 8));
  q.restart(FaultStorage::Cut::none);
  const auto& report = q.log->restart().report();
  if (report.damage_count != 1 || report.damage[0].offset != at.offset) return false;
  std::vector<std::string> there;
  while (auto m = q.due()) {
    there.push_back(m->envelope.queue_id);
    BOOST_REQUIRE(q.log->work().start(*m).has_value());
  }
  return there == std::vector<std::string>{"one", "three"};
}

}  // namespace

BOOST_AUTO_TEST_CASE(forged_records_in_a_body_that_is_searched_through_are_no_records) {
  // All of the header but the mark, which is no part of what the checksum covers.
  for (std::uint32_t bit = 32; bit < kRecordHeader * 8; bit += 3)
    BOOST_TEST(forged_records_stay_payload(bit), "bit " << bit);
  // Without the key they would pass.
  const BreakageScope broken(Breakage::unkeyed_checksum);
  BOOST_TEST(!forged_records_stay_payload(70));
}

/// The runner's reader was made when the log ended in a segment that is sealed by the time it gets there.
BOOST_FIXTURE_TEST_CASE(a_log_that_goes_on_while_it_is_read_is_not_taken_for_damaged, Queue) {
  recover();
  const LogId retry = log->runners().retry_log_for(seconds(300));
  const auto defer = [&](const std::string& id) {
    accept(envelope(id));
    BOOST_REQUIRE(log->work().start(*due()).has_value());
    BOOST_REQUIRE(log->work().defer(id, retry, envelope(id, std::string(2000, 'x'))).has_value());
    commit();
  };
  defer("first");
  clock.advance(seconds(300));
  const auto first = due(retry);
  BOOST_REQUIRE(first.has_value());
  for (int i = 0; i < 20; ++i) defer("later" + std::to_string(i));
  BOOST_REQUIRE(log->work().start(*first).has_value());
  commit();
  clock.advance(seconds(300));
  for (int i = 0; i < 20; ++i) {
    const auto later = due(retry);
    BOOST_REQUIRE(later.has_value());
    BOOST_TEST(later->envelope.queue_id == "later" + std::to_string(i));
    BOOST_REQUIRE(log->work().start(*later).has_value());
  }
  BOOST_TEST(!due(retry).has_value());
  BOOST_TEST(log->restart().report().damage.empty());
}

/// Reads of one chunk, of several, and of records larger than the chunk that is read at that place.
BOOST_FIXTURE_TEST_CASE(messages_of_any_size_are_read_back_as_they_were_written, Queue) {
  options.segment_size = 1U << 20;
  options.reserve = 1U << 20;
  disk = FaultStorage();
  open();
  recover();
  std::map<std::string, std::string> written;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "m" + std::to_string(i);
    written[id].resize(random.below(i % 10 == 0 ? 100'000 : 9'000));
    for (char& c : written[id]) c = static_cast<char>(random.below(256));
    accept(envelope(id, written[id]));
  }
  restart(FaultStorage::Cut::none);
  BOOST_TEST(log->restart().report().damage_count == 0u);
  std::size_t listed = 0;
  for (auto scan = log->scan(); !scan->done();) {
    auto some = scan->step(100);
    BOOST_REQUIRE(some.has_value());
    listed += some->size();
  }
  BOOST_TEST(listed == written.size());
  std::size_t run = 0;
  for (; auto message = due(); ++run) {
    const auto& e = message->envelope;
    BOOST_TEST((e.payload == written[e.queue_id]), e.queue_id);
    BOOST_REQUIRE(log->work().start(*message).has_value());
  }
  BOOST_TEST(run == written.size());
}

/// What its receiver does that had no answer: it asks each process that comes.
BOOST_FIXTURE_TEST_CASE(a_message_taken_again_after_two_deaths_loses_while_it_is_worked_on, Queue) {
  recover();
  auto asked = log->append(envelope("twice"));
  BOOST_REQUIRE(asked.has_value());
  commit();  // durable, and the answer dies with the process
  restart(FaultStorage::Cut::kill);
  log->commits().save_positions();
  commit();
  restart(FaultStorage::Cut::kill);  // before the receiver came
  const auto again = accept(envelope("twice"));
  BOOST_TEST(!again.duplicate);
  // From memory, as new mail is; then the journal's runner comes to the older version.
  BOOST_REQUIRE(log->work().start("twice", again.place, again.bytes).has_value());
  auto older = due();
  BOOST_REQUIRE(older.has_value());
  auto refused = log->work().start(*older);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is(QueueLogError::superseded));
  BOOST_TEST(!due().has_value());
  BOOST_REQUIRE(log->work().finish("twice").has_value());
  log->commits().save_positions();
  log->commits().flush();
  commit();
  restart(FaultStorage::Cut::none);
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(an_older_version_loses_to_what_this_process_took, Queue) {
  recover();
  accept(envelope("late"));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("late", kFirstRetry, envelope("late", "deferred")).has_value());
  log->commits().flush();
  log->commits().save_positions();
  commit();
  restart(FaultStorage::Cut::kill);
  restart(FaultStorage::Cut::kill);
  const auto again = accept(envelope("late", "again"));
  BOOST_TEST(!again.duplicate);
  BOOST_REQUIRE(log->work().start("late", again.place, again.bytes).has_value());
  BOOST_REQUIRE(log->work().finish("late").has_value());  // it is over when the retry comes
  clock.advance(seconds(400));
  const auto deferred = due(kFirstRetry);
  BOOST_REQUIRE(deferred.has_value());
  BOOST_TEST(deferred->envelope.payload == "deferred");
  auto refused = log->work().start(*deferred);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is(QueueLogError::superseded));
  log->commits().save_positions();
  log->commits().flush();
  commit();
  restart(FaultStorage::Cut::none);
  clock.advance(seconds(400));
  BOOST_TEST(!due(kFirstRetry).has_value());
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(what_is_or_was_worked_on_in_this_process_is_not_taken_again, Queue) {
  recover();
  accept(envelope("drop"));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("drop", kFirstRetry, envelope("drop")).has_value());
  log->commits().flush();
  log->commits().save_positions();
  commit();
  restart(FaultStorage::Cut::kill);
  restart(FaultStorage::Cut::kill);
  clock.advance(seconds(400));
  BOOST_REQUIRE(log->work().start(*due(kFirstRetry)).has_value());
  BOOST_TEST(accept(envelope("drop")).duplicate);
  BOOST_REQUIRE(log->work().finish("drop").has_value());
  BOOST_TEST(accept(envelope("drop")).duplicate);
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(results_of_another_version_count_for_the_one_that_recovery_keeps, Queue) {
  recover();
  accept(envelope("many", "first", 3));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("many", kFirstRetry, envelope("many", "deferred", 3)).has_value());
  log->commits().flush();
  log->commits().save_positions();
  commit();
  restart(FaultStorage::Cut::kill);
  restart(FaultStorage::Cut::kill);
  const auto again = accept(envelope("many", "again", 3));
  BOOST_TEST(!again.duplicate);
  BOOST_REQUIRE(log->work().start("many", again.place, again.bytes).has_value());
  BOOST_REQUIRE(log->work().delivered("many", OrdinalSet::one(1), "250 ok").has_value());
  commit();
  disk.truncate(kPositionsSlot, 0);  // now recovery reads the retry log as well
  restart(FaultStorage::Cut::kill);
  const auto left = due();
  BOOST_REQUIRE(left.has_value());
  BOOST_TEST(!left->envelope.remaining.contains(1));
  BOOST_TEST(left->envelope.remaining.count() == 2u);
  BOOST_REQUIRE(log->work().start(*left).has_value());
  clock.advance(seconds(400));
  BOOST_TEST(!due(kFirstRetry).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_version_that_is_not_durable_cannot_be_started_and_ends_nothing, Queue) {
  recover();
  auto appended = log->append(envelope("soon"));
  BOOST_REQUIRE(appended.has_value());
  auto refused = log->work().start("soon", appended->place, appended->bytes);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is(QueueLogError::not_found));
  commit();
  BOOST_TEST(log->work().start("soon", appended->place, appended->bytes).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
