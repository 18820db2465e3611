// What a disk or a person can do to the queue: bits flipped, sectors that are not given back, files cut short, lost or
// foreign, writes and syncs that fail. Nothing may be dropped without a word, and what is whole is delivered.
// PEN_FAULT_SEED and PEN_FAULT_SEEDS choose the first seed and how many follow.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/log_reader.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/environment.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::from_environment;
using pen::testing::ManualClock;

BOOST_AUTO_TEST_SUITE(queue_log_faults)

namespace {

/// A queue with a bit of everything in it, all of it synced.
struct Queue {
  explicit Queue(std::uint64_t seed, int messages = 60) : random(seed) {
    options.segment_size = 8192;
    options.intervals = {seconds(300), seconds(600)};
    options.reserve = 20000;
    options.save_every = 12000;
    start();
    for (int i = 0; i < messages; ++i) {
      accept("M" + std::to_string(i));
      if (random.chance(0.5)) work();
      if (i == messages / 2) restart();
    }
    settle();
  }

  Random random;
  ManualClock clock;
  FaultStorage disk;
  Options options;
  std::unique_ptr<QueueLog> log;
  std::map<std::string, std::string> truth;  // queue id and payload of what is still to be delivered

  void start() {
    auto opened = QueueLog::open(disk, options, clock, random);
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
    log = *std::move(opened);
    for (int steps = 0; log->restart().stage() != Recovery::done; ++steps) {
      BOOST_REQUIRE_LT(steps, 10000);
      BOOST_REQUIRE(log->restart().step(4096).has_value());
      commit();
    }
  }
  void restart() {
    log.reset();
    disk = disk.cut(FaultStorage::Cut::kill, random);
    start();
  }
  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(disk);
      BOOST_REQUIRE(log->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      log->commits().flush();
      commit();
    }
  }
  void save() {
    settle();
    log->commits().save_positions();
    commit();
  }
  Envelope envelope(const std::string& id) {
    Envelope e;
    e.queue_id = id;
    e.recipients = 2;
    e.remaining = OrdinalSet::span(0, 2);
    e.sender = "ada@example.org";
    const std::size_t size = random.chance(0.05) ? 9000 : random.below(900);
    e.payload = id + std::string(size, static_cast<char>('a' + random.below(26)));
    return e;
  }
  void accept(const std::string& id) {
    const Envelope e = envelope(id);
    BOOST_REQUIRE(log->append(e).has_value());
    truth[id] = e.payload;
    commit();
  }
  /// The next message goes one of the ways a message can go.
  void work() {
    auto due = log->runners().next_due(kJournal, clock.wall_now());
    BOOST_REQUIRE(due.has_value());
    if (!due->message) return;
    const Envelope e = due->message->envelope;
    BOOST_REQUIRE(log->work().start(*due->message).has_value());
    const auto choice = random.below(6);
    if (choice < 2) {
      BOOST_REQUIRE(log->work().delivered(e.queue_id, OrdinalSet::span(0, 2), "250 ok").has_value());
      BOOST_REQUIRE(log->work().finish(e.queue_id).has_value());
      truth.erase(e.queue_id);
    } else if (choice < 4) {
      BOOST_REQUIRE(log->work().defer(e.queue_id, static_cast<LogId>(kFirstRetry + random.below(2)), e).has_value());
    } else if (choice == 4) {
      BOOST_REQUIRE(log->work().hold(e.queue_id, e).has_value());
    } else {
      BOOST_REQUIRE(log->work().delivered(e.queue_id, OrdinalSet::one(0), "250 ok").has_value());
    }
    commit();
  }
  /// What can be delivered now, with what was held; and the segments that are not damaged go back to the pool.
  std::map<std::string, std::string> drain() {
    std::map<std::string, std::string> out;
    for (auto scan = log->scan(); !scan->done();) {
      settle();
      auto some = scan->step(100);
      BOOST_REQUIRE(some.has_value());
      for (const Listed& l : *some) {
        if (l.place.log != kHold) continue;
        auto stored = log->runners().read(l.place);
        if (!stored || !log->work().start(*stored)) continue;
        out[l.queue_id] = stored->envelope.payload;
        BOOST_REQUIRE(log->work().finish(l.queue_id).has_value());
      }
    }
    clock.advance(seconds(10000));
    for (LogId id = 0; id < log->runners().log_count(); ++id) {
      if (id == kHold) continue;
      for (int steps = 0;; ++steps) {
        BOOST_REQUIRE_LT(steps, 100000);
        auto due = log->runners().next_due(id, clock.wall_now());
        BOOST_REQUIRE(due.has_value());
        if (due->message) {
          const auto started = log->work().start(*due->message);
          // Without its mark an older version shows up beside the one that this drain has had.
          if (!started && started.error().is(QueueLogError::superseded) &&
              out.contains(due->message->envelope.queue_id))
            continue;
          BOOST_REQUIRE(started.has_value());
          out[due->message->envelope.queue_id] = due->message->envelope.payload;
          BOOST_REQUIRE(log->work().finish(due->message->envelope.queue_id).has_value());
        } else if (!due->more && !(due->next && *due->next <= clock.wall_now())) {
          break;
        }
        commit();
      }
    }
    save();
    return out;
  }
  /// Stops as if the power had gone, all of it synced: what is there now is what damage is done to.
  void stop() {
    log.reset();
    disk = disk.cut(FaultStorage::Cut::none, random);
    find_places();
  }
  /// Any damage: nothing comes out that never went in, and nothing is missing without a report of its place.
  void check(const std::string& what) {
    find_places();  // recovery has written some anew
    const auto out = drain();
    for (const auto& [id, payload] : truth) {
      const auto it = out.find(id);
      if (it != out.end()) {
        BOOST_TEST(it->second == payload, what << ": " << id << " is corrupted");
        continue;
      }
      ++lost;
      BOOST_TEST(told(id), what << ": " << id << " is missing without a word");
    }
    accept("after");
  }
  std::size_t lost = 0;

  /// Where the records are without which a message is lost: its newest envelope, and the START that leads to that.
  struct Extent {
    Position begin, end;  // over several segments if it has parts
    auto rank() const { return std::tie(generation, epoch, begin); }
    std::uint32_t generation = 0, epoch = 0;
  };
  std::map<std::string, Extent> envelopes, starts;
  std::map<std::uint64_t, Slot> slots;

  /// Adds what is on the disk now, whether the log can read it or not.
  void find_places() {
    FaultStorage readable;
    std::map<std::int64_t, std::map<std::uint64_t, SegmentHeader>> logs;
    for (const auto& slot : *disk.list()) {
      if (!slot.usable) continue;
      const std::string bytes = disk.content(slot.slot);
      const auto header = decode_segment_header(as_bytes(bytes));
      if (!header || header->slot != slot.slot) continue;
      BOOST_REQUIRE(readable.allocate(slot.slot, options.segment_size).has_value());
      BOOST_REQUIRE(readable.write(slot.slot, 0, as_bytes(bytes)).has_value());
      slots[header->use] = slot.slot;
      logs[header->interval][header->use] = *header;
    }
    const auto keep = [](Extent& known, const Extent& found) {
      if (known.begin.use == 0 || known.rank() < found.rank()) known = found;
    };
    for (const auto& [interval, segments] : logs) {
      const auto source = [&segments](std::uint64_t use) -> std::optional<SegmentHeader> {
        const auto it = segments.lower_bound(use);
        return it == segments.end() ? std::nullopt : std::optional(it->second);
      };
      LogReader reader(readable, source, {segments.begin()->first, kDataStart}, {}, SegmentReader::Search::whole);
      for (;;) {
        const auto got = reader.next();
        BOOST_REQUIRE(got.has_value());
        if (*got == LogReader::Got::end) break;
        if (*got != LogReader::Got::record) continue;
        const auto& r = reader.record();
        if (r.type == RecordType::envelope) {
          const auto body = decode<EnvelopeBody>(as_text(r.body));
          if (!body) continue;  // a part between is lost
          keep(envelopes[body->queue_id], {r.position, reader.at(), body->generation, r.epoch});
        } else if (r.type == RecordType::start) {
          const auto body = decode<StartBody>(as_text(r.body));
          if (!body) continue;  // a part between is lost
          keep(starts[body->queue_id], {r.position, reader.at(), body->generation, r.epoch});
        }
      }
    }
  }
  bool told(const std::string& id) const {
    const auto& report = log->restart().report();
    for (const Damage& d : report.damage)
      if (d.queue_id == id) return true;
    std::vector<Extent> needed{envelopes.at(id)};
    const auto start = starts.find(id);
    if (start != starts.end() && start->second.generation == needed.front().generation) needed.push_back(start->second);
    for (const Extent& extent : needed) {
      const auto meets = [&](std::uint64_t use, std::uint64_t from, std::uint64_t bytes) {
        return use >= extent.begin.use && use <= extent.end.use &&
               (use > extent.begin.use || from + bytes > extent.begin.offset) &&
               (use < extent.end.use || from < extent.end.offset);
      };
      for (const Damage& d : report.damage) {
        // What is live whatever its mark is not lost by that.
        if (d.bytes == 0 || d.what.starts_with("odd garbage mark")) continue;
        for (const auto& [use, slot] : slots)
          if ((d.use == 0 ? d.slot == slot : d.use == use) && meets(use, d.offset, d.bytes)) return true;
      }
      // The last record before a stop cannot be distinguished from an unfinished write: it is counted as that.
      for (const RecoveryReport::Torn& t : report.torn)
        if (meets(t.use, t.offset, t.bytes)) return true;
    }
    return false;
  }

  /// The slot and the place of a message that waits in the journal.
  std::pair<Slot, Position> some_message() {
    auto due = log->runners().next_due(kJournal, clock.wall_now());
    BOOST_REQUIRE(due->message.has_value());
    const Position at = due->message->place.position;
    for (const auto& slot : *disk.list()) {
      const auto header = decode_segment_header(as_bytes(disk.content(slot.slot)));
      if (header && header->use == at.use) return {slot.slot, at};
    }
    BOOST_FAIL("no such segment");
    return {};
  }
  /// Whether the segment is free, or came into use before positions were saved last.
  bool known(Slot slot) const {
    const auto header = decode_segment_header(as_bytes(disk.content(slot)));
    if (!header) return true;
    std::uint64_t next_use = 0;
    const std::string both = disk.content(kPositionsSlot);
    for (const std::size_t copy : {std::size_t{0}, static_cast<std::size_t>(kPositionsCopy)})
      if (const auto saved = decode_positions(as_bytes(both).subspan(copy, kPositionsCopy)))
        next_use = std::max(next_use, saved->next_use);
    return header->use < next_use;
  }
  const Damage* damage(std::string_view what) const {
    for (const Damage& d : log->restart().report().damage)
      if (d.what.find(what) != std::string::npos) return &d;
    return nullptr;
  }
};

/// Calls `damaged` with each seed, of `usual` or as many as the environment wants; returns how many there were.
template <typename Damaged>
std::size_t each_seed(std::size_t usual, const Damaged& damaged) {
  const auto first = from_environment("PEN_FAULT_SEED", 1);
  const auto count = from_environment("PEN_FAULT_SEEDS", usual);
  for (std::uint64_t seed = first; seed < first + count; ++seed) damaged(seed);
  return count;
}

Slot some_slot(Queue& q) { return 1 + static_cast<Slot>(q.random.below(q.disk.slots() - 1)); }

}  // namespace

BOOST_AUTO_TEST_CASE(flipped_bits_anywhere_are_never_silent) {
#ifdef PEN_FEW
  constexpr std::size_t kUsual = 100;
#else
  constexpr std::size_t kUsual = 400;
#endif
  std::size_t lost = 0;
  const auto seeds = each_seed(kUsual, [&](std::uint64_t seed) {
    Queue q(seed);
    q.stop();
    for (auto flips = 1 + q.random.below(4); flips > 0; --flips) {
      const bool positions = q.random.chance(0.1);
      q.disk.flip(positions ? kPositionsSlot : some_slot(q), q.random.below(positions ? 600 : 8192),
                  static_cast<unsigned char>(1U << q.random.below(8)));
    }
    if (seed % 3 == 0) q.disk.set_aside_errno = EIO;
    q.start();
    q.check("seed " + std::to_string(seed));
    lost += q.lost;
  });
  BOOST_TEST(lost > seeds / 8);  // else the flips hit nothing
}

BOOST_AUTO_TEST_CASE(sectors_that_cannot_be_read_are_never_silent_and_never_in_the_way) {
  std::size_t lost = 0;
  const auto seeds = each_seed(200, [&](std::uint64_t seed) {
    Queue q(seed);
    q.stop();
    for (auto n = 1 + q.random.below(3); n > 0; --n)
      q.disk.make_unreadable(q.random.chance(0.1) ? kPositionsSlot : some_slot(q), q.random.below(16) * 512, 512);
    if (seed % 3 == 0) q.disk.set_aside_errno = EIO;
    q.start();
    q.check("seed " + std::to_string(seed));
    lost += q.lost;
  });
  BOOST_TEST(lost > seeds / 4);
}

BOOST_AUTO_TEST_CASE(files_cut_short_lost_or_written_over_are_never_silent) {
  each_seed(200, [](std::uint64_t seed) {
    Queue q(seed);
    q.stop();
    const Slot slot = some_slot(q);
    switch (q.random.below(5)) {
      case 0:
        q.disk.truncate(slot, q.random.below(8192));
        break;
      case 1:
        // That a segment was there at all is known from the positions that were saved last, and from no other place
        // (docs/queue-recovery.md).
        if (q.known(slot)) q.disk.lose(slot);
        break;
      case 2:
        q.disk.truncate(kPositionsSlot, q.random.below(2 * kPositionsCopy));
        break;
      case 3:
        q.disk.lose(kPositionsSlot);
        break;
      default: {  // a file copied over another
        const std::string other = q.disk.content(some_slot(q));
        BOOST_REQUIRE(q.disk.write(slot, 0, as_bytes(other)).has_value());
        BOOST_REQUIRE(q.disk.sync(slot).has_value());
      }
    }
    q.disk.put_foreign(static_cast<Slot>(900 + q.random.below(3)));
    q.start();
    BOOST_TEST(q.damage("not a file") != nullptr);
    q.check("seed " + std::to_string(seed));
  });
}

/// Whether the damaged segment's bytes are still there when everything else has been delivered and new mail came.
static bool damage_is_kept() {
  Queue q(7, 30);
  q.save();
  const auto [slot, at] = q.some_message();
  q.log.reset();
  q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
  q.disk.flip(slot, at.offset + 50, 1);
  q.start();
  q.drain();
  for (int i = 0; i < 200; ++i) {
    q.accept("N" + std::to_string(i));
    q.drain();
    if (i % 50 == 49) q.restart();
  }
  return q.disk.aside() == 1 && !q.disk.has(slot);
}

BOOST_AUTO_TEST_CASE(a_damaged_segment_is_set_aside_and_not_used_again) {
  BOOST_TEST(damage_is_kept());
  const BreakageScope broken(Breakage::recycle_damaged);
  BOOST_TEST(!damage_is_kept());
}

BOOST_AUTO_TEST_CASE(a_segment_is_set_aside_once_wherever_the_power_is_cut) {
  Queue q(9, 30);
  q.save();
  const auto [slot, at] = q.some_message();
  q.log.reset();
  q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
  q.disk.flip(slot, at.offset + 50, 1);
  std::uint64_t cuts = 0;
  bool inside = false;
  q.disk.before_operation = [&](const FaultStorage& now) {
    if (std::exchange(inside, true)) return;
    for (const FaultStorage::Cut how : FaultStorage::kCuts) {
      ++cuts;
      ManualClock clock;
      FaultStorage after = now.cut(how, q.random);
      auto log = QueueLog::open(after, q.options, clock, q.random);
      BOOST_REQUIRE(log.has_value());
      while ((*log)->restart().stage() != Recovery::done) {
        BOOST_REQUIRE((*log)->restart().step(8192).has_value());
        while (auto batch = (*log)->commits().next_batch()) {
          auto executed = batch->execute(after);
          BOOST_REQUIRE((*log)->commits().complete(*std::move(batch), std::move(executed)).has_value());
        }
      }
      BOOST_TEST(after.aside() <= 1u);
    }
    inside = false;
  };
  q.start();
  q.drain();
  q.drain();
  q.disk.before_operation = nullptr;
  BOOST_TEST(q.disk.aside() == 1u);
  BOOST_TEST(cuts > 50u);
}

BOOST_AUTO_TEST_CASE(a_segment_that_cannot_be_set_aside_is_told_and_not_used_again) {
  for (const bool header : {false, true}) {
    Queue q(7, 30);
    q.save();
    const auto [slot, at] = q.some_message();
    q.stop();
    if (header) {
      q.disk.flip(slot, 20, 1);
      q.disk.flip(slot, kSectorSize + 20, 1);
    } else {
      q.disk.flip(slot, at.offset + 50, 1);
    }
    const std::string bytes = q.disk.content(slot);
    q.disk.set_aside_errno = EIO;
    q.start();
    q.check("not set aside");
    for (int i = 0; i < 60; ++i) q.accept("N" + std::to_string(i));
    q.drain();
    const Damage* told = q.damage("could not be renamed");
    BOOST_REQUIRE(told != nullptr);
    BOOST_TEST(told->slot == slot);
    BOOST_TEST(told->what.find("Input/output error") != std::string::npos, told->what);
    BOOST_TEST(q.disk.aside() == 0u);
    // Its records may still be marked while they are needed, nothing else.
    if (header) BOOST_TEST((q.disk.content(slot) == bytes));
    const std::string left = q.disk.content(slot);
    // The next start cannot either, the one after it can.
    for (const bool works : {false, true}) {
      q.log.reset();
      q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
      q.disk.set_aside_errno = works ? 0 : EIO;
      q.start();
      q.accept(works ? "last" : "next");
      q.save();
      BOOST_TEST((q.damage("could not be renamed") == nullptr) == works);
      BOOST_TEST(q.disk.aside() == (works ? 1u : 0u));
      BOOST_TEST(q.disk.has(slot) == !works);
      if (!works) BOOST_TEST((q.disk.content(slot) == left));
    }
    const auto out = q.drain();
    BOOST_TEST((out.contains("last") && out.contains("next")));
  }
}

/// Whether live messages are still delivered when their mark was hit.
static bool odd_marks_are_live() {
  Queue q(3, 1);
  for (int i = 0; i < 10; ++i) q.accept("N" + std::to_string(i));
  q.log.reset();
  q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
  for (Slot slot = 1; slot < q.disk.slots(); ++slot) {
    const std::string bytes = q.disk.content(slot);
    const auto header = decode_segment_header(as_bytes(bytes));
    if (!header) continue;
    for (std::uint32_t at = kDataStart; at < bytes.size(); at += 8) {
      const auto record = decode_record(as_bytes(bytes).subspan(at), *header, at);
      if (record && record->type == RecordType::envelope && record->mark == 0) q.disk.flip(slot, at + 1, 0x40);
    }
  }
  q.start();
  const auto out = q.drain();
  BOOST_TEST((q.damage("odd garbage mark") != nullptr || broken(Breakage::odd_mark_is_garbage)));
  return out == q.truth;
}

BOOST_AUTO_TEST_CASE(a_mark_that_is_neither_live_nor_garbage_counts_as_live) {
  BOOST_TEST(odd_marks_are_live());
  const BreakageScope broken(Breakage::odd_mark_is_garbage);
  BOOST_TEST(!odd_marks_are_live());
}

BOOST_AUTO_TEST_CASE(damage_is_told_with_log_slot_offset_length_and_message) {
  Queue q(11, 0);
  auto a = q.log->append(q.envelope("worked-on"));
  q.truth.clear();
  q.commit();
  auto due = q.log->runners().next_due(kJournal, q.clock.wall_now());
  BOOST_REQUIRE(due->message.has_value());
  const Slot slot = q.some_message().first;
  BOOST_REQUIRE(q.log->work().start(*due->message).has_value());
  q.accept("next");
  q.save();
  q.log.reset();
  q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
  q.disk.make_unreadable(slot, a->place.position.offset, 8);
  q.start();
  const Damage* d = q.damage("being worked on");
  BOOST_REQUIRE(d != nullptr);
  BOOST_TEST(d->queue_id == "worked-on");
  BOOST_TEST(d->slot == slot);
  BOOST_TEST(d->use == a->place.position.use);
  BOOST_TEST(d->offset == a->place.position.offset);
}

/// Whether mail that comes after a start is kept, where the end of what was written last cannot be read: it is not
/// written behind that.
static bool mail_after_an_unreadable_end_is_kept() {
  Queue q(5, 0);
  q.accept("before");
  const auto last = q.log->append(q.envelope("last"));
  BOOST_REQUIRE(last.has_value());
  q.commit();
  q.save();
  q.stop();
  const Position at = last->place.position;
  const Slot slot = q.slots.at(at.use);
  q.disk.make_unreadable(slot, at.offset, 8);
  q.start();
  BOOST_TEST(
      (q.damage("the disk does not give the bytes back") != nullptr || broken(Breakage::append_after_torn_tail)));
  for (int i = 0; i < 5; ++i) {
    const auto next = q.log->append(q.envelope("after" + std::to_string(i)));
    BOOST_REQUIRE(next.has_value());
    q.commit();
    if (next->place.position.use == at.use) return false;
  }
  q.restart();
  const auto out = q.drain();
  for (int i = 0; i < 5; ++i)
    if (!out.contains("after" + std::to_string(i))) return false;
  return true;
}

BOOST_AUTO_TEST_CASE(nothing_is_written_behind_an_end_that_cannot_be_read) {
  BOOST_TEST(mail_after_an_unreadable_end_is_kept());
  const BreakageScope broken(Breakage::append_after_torn_tail);
  BOOST_TEST(!mail_after_an_unreadable_end_is_kept());
}

/// Whatever write or sync fails, and however: nothing more is acknowledged, and the next start finds what was.
BOOST_AUTO_TEST_CASE(a_write_or_sync_that_fails_ends_the_log_and_loses_nothing) {
  std::size_t failures = 0;
  for (std::uint64_t n = 1; n <= 150; ++n) {
    for (const int how : {EIO, ENOSPC, 0}) {  // 0: a sync
      Queue q(n % 5 + 1, 10);
      if (how == 0)
        q.disk.fail_sync = q.disk.syncs() + n;
      else
        q.disk.fail_write = q.disk.writes() + n;
      q.disk.write_errno = how == 0 ? EIO : how;
      bool failed = false;
      for (int i = 0; i < 60 && !failed; ++i) {
        const std::string id = "N" + std::to_string(i);
        const Envelope e = q.envelope(id);
        auto a = q.log->append(e);
        BOOST_REQUIRE(a.has_value());
        while (auto batch = q.log->commits().next_batch()) {
          auto executed = batch->execute(q.disk);
          if (!q.log->commits().complete(*std::move(batch), std::move(executed))) {
            failed = true;
            break;
          }
        }
        if (q.log->commits().committed() >= a->ticket) q.truth[id] = e.payload;
      }
      if (!failed) continue;
      ++failures;
      BOOST_TEST(q.log->append(q.envelope("more")).error().is(QueueLogError::io_error));
      BOOST_TEST(!q.log->has_space());
      BOOST_TEST(!q.log->commits().next_batch().has_value());
      q.log.reset();
      q.disk = q.disk.cut(q.random.chance(0.5) ? FaultStorage::Cut::kill : FaultStorage::Cut::torn, q.random);
      q.start();
      // The write that failed may have left half a garbage mark: said, and taken for none.
      for (const Damage& d : q.log->restart().report().damage)
        BOOST_TEST((how != 0 && d.what.starts_with("odd garbage mark")), d.what);
      const auto out = q.drain();
      for (const auto& [id, payload] : q.truth)
        BOOST_TEST((out.contains(id) && out.at(id) == payload),
                   id << " is lost after failure " << how << " of operation " << n);
    }
  }
  BOOST_TEST(failures > 200u);
}

BOOST_AUTO_TEST_CASE(a_file_that_a_crash_left_half_made_is_made_whole) {
  FaultStorage disk;
  ManualClock clock;
  Random random(1);
  Options options;
  options.segment_size = 8192;
  options.reserve = 60000;
  options.intervals = {seconds(300)};
  std::size_t short_files = 0;
  disk.before_operation = [&](const FaultStorage& now) {
    FaultStorage after = now.cut(FaultStorage::Cut::all, random);
    for (const auto& slot : *after.list()) short_files += slot.size == 0;
    auto log = QueueLog::open(after, options, clock, random);
    BOOST_REQUIRE(log.has_value());
    BOOST_TEST((*log)->restart().report().damage_count == 0u);
    for (const auto& slot : *after.list()) BOOST_TEST(slot.size != 0u);
  };
  BOOST_REQUIRE(QueueLog::open(disk, options, clock, random).has_value());
  BOOST_TEST(short_files > 1u);
}

/// Fills a disk with mail, and then delivers or defers all of it.
static bool a_full_disk_drains() {
  Queue q(5, 0);
  q.options.reserve = 60000;
  q.restart();
  q.disk.capacity = q.disk.slots() + 8;
  for (int i = 0; i < 3000 && q.log->append(q.envelope("N" + std::to_string(i))); ++i) q.commit();
  if (q.log->has_space()) return false;
  std::deque<Envelope> begun;
  for (int i = 0;; ++i) {
    auto due = q.log->runners().next_due(kJournal, q.clock.wall_now());
    if (!due || (due->message && !q.log->work().start(*due->message))) return false;
    if (due->message) begun.push_back(due->message->envelope);
    // Fifty in hand at a time; every other one is deferred, in full.
    if (begun.empty()) return true;
    if (due->message && begun.size() < 50) continue;
    const Envelope e = begun.front();
    begun.pop_front();
    const bool done = i % 2 == 0 ? q.log->work().finish(e.queue_id).has_value()
                                 : q.log->work().defer(e.queue_id, kFirstRetry, e).has_value();
    if (!done) return false;
    q.settle();
  }
}

BOOST_AUTO_TEST_CASE(deliveries_drain_a_queue_that_has_no_free_block_left) {
  BOOST_TEST(a_full_disk_drains());
  const BreakageScope broken(Breakage::take_the_reserve);
  BOOST_TEST(!a_full_disk_drains());
}

BOOST_AUTO_TEST_SUITE_END()
