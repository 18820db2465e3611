// Filters of queue ids, look-ups by id, and flushes by a mark.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/dump.h"
#include "lib/queue/queue_log/id_filter.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/segment_reader.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::ManualClock;

namespace {

/// Counts what is read, to see what a look-up leaves alone.
class CountingStorage final : public Storage {
 public:
  explicit CountingStorage(FaultStorage& below) : below_(below) {}
  Result<std::vector<SlotInfo>> list() override { return below_.list(); }
  Result<void> allocate(Slot slot, std::uint64_t size) override { return below_.allocate(slot, size); }
  Result<void> write(Slot slot, std::uint64_t at, Bytes bytes) override { return below_.write(slot, at, bytes); }
  Result<void> sync(Slot slot) override { return below_.sync(slot); }
  Result<void> drop_cache(Slot slot) override { return below_.drop_cache(slot); }
  Result<void> set_aside(Slot slot) override { return below_.set_aside(slot); }
  Result<void> read(Slot slot, std::uint64_t at, MutableBytes into) override {
    read_bytes += into.size();
    return below_.read(slot, at, into);
  }
  std::uint64_t read_bytes = 0;

 private:
  FaultStorage& below_;
};

struct Deep {
  Random random{7};
  ManualClock clock;
  FaultStorage disk;
  CountingStorage storage{disk};
  std::unique_ptr<QueueLog> log;
  Options options;

  Deep() {
    options.segment_size = 65536;
    options.intervals = {seconds(300), seconds(600)};
    options.reserve = 0;
    open();
  }
  void open() {
    log.reset();
    auto opened = QueueLog::open(storage, options, clock, random);
    BOOST_REQUIRE(opened.has_value());
    log = *std::move(opened);
    while (*log->restart().step(65536) == Recovery::reading) commit();
    commit();
    BOOST_REQUIRE(log->restart().stage() == Recovery::done);
  }
  void commit() {
    log->commits().flush();
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(storage);
      BOOST_REQUIRE(log->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  static std::string id(int n) { return "4bGNsx" + std::to_string(100000 + n); }
  static Envelope envelope(int n) {
    Envelope e;
    e.queue_id = id(n);
    e.recipients = 1;
    e.remaining = OrdinalSet::one(0);
    e.sender = "a@example.org";
    e.domains = {"example.com"};
    e.payload.assign(400, 'x');
    return e;
  }
  /// Messages [from, to) are accepted, tried and deferred.
  void defer(int from, int to) {
    for (int n = from; n < to; ++n) {
      const auto a = log->append(envelope(n));
      BOOST_REQUIRE(a.has_value());
      commit();
      BOOST_REQUIRE(log->work().start(id(n), a->place, a->bytes).has_value());
      BOOST_REQUIRE(log->work().defer(id(n), kFirstRetry, envelope(n)).has_value());
    }
    commit();
    commit();
  }
  std::multimap<std::string, Listed> found(std::vector<std::string> ids) {
    std::multimap<std::string, Listed> result;
    for (auto scan = log->find(std::move(ids)); !scan->done();) {
      auto some = scan->step(50);
      BOOST_REQUIRE(some.has_value());
      for (auto& l : *some) result.emplace(l.queue_id, l);
    }
    return result;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(find)

BOOST_AUTO_TEST_CASE(a_filter_never_denies_what_was_added_and_seldom_affirms_the_rest) {
  for (const std::size_t count : {1U, 100U, 2000U, 20000U}) {
    IdFilter filter(16384);
    for (std::size_t i = 0; i < count; ++i) {
      filter.add(IdFilter::hash(Deep::id(static_cast<int>(i))));
      BOOST_REQUIRE(filter.may_contain(IdFilter::hash(Deep::id(static_cast<int>(i / 2)))));
      BOOST_REQUIRE(filter.may_contain(IdFilter::hash(Deep::id(static_cast<int>(i)))));
    }
    const std::string packed = filter.packed();
    BOOST_TEST(packed.size() <= 16384u);
    if (packed.size() > IdFilter::kMinBytes) BOOST_TEST(packed.size() * 8 < count * 2 * IdFilter::kBitsPerId);
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
      BOOST_REQUIRE(IdFilter::may_contain(packed, IdFilter::hash(Deep::id(static_cast<int>(i)))));
    for (int i = 0; i < 10000; ++i)
      wrong += IdFilter::may_contain(packed, IdFilter::hash("other" + std::to_string(i))) ? 1 : 0;
    BOOST_TEST(wrong < (count == 20000 ? 2500 : 100), count << " ids: " << wrong << " in 10,000");
  }
}

BOOST_AUTO_TEST_CASE(a_filter_that_is_none_affirms) {
  for (const auto size : {0, 1, 31, 33, 48})
    BOOST_TEST(IdFilter::may_contain(std::string(static_cast<std::size_t>(size), '\0'), 42));
  BOOST_TEST(!IdFilter::may_contain(std::string(32, '\0'), 42));
  BOOST_TEST(IdFilter().may_contain(42));
}

BOOST_FIXTURE_TEST_CASE(every_message_is_found_by_its_id_wherever_it_is, Deep) {
  defer(0, 600);
  for (const int n : {0, 1, 99, 300, 598, 599}) {
    const auto one = found({id(n)});
    BOOST_REQUIRE_EQUAL(one.size(), 1u);
    BOOST_TEST(one.begin()->second.place.log == kFirstRetry);
    BOOST_TEST(!one.begin()->second.later);
    BOOST_TEST(one.begin()->second.stored > 400u);
  }
  BOOST_TEST(found({"nobody"}).empty());
  const auto some = found({id(5), id(404), id(599), "nobody"});
  BOOST_TEST(some.size() == 3u);
  // Many ids at once are one pass over the footers.
  std::vector<std::string> many;
  for (int n = 0; n < 600; n += 2) many.push_back(id(n));
  BOOST_TEST(found(many).size() == 300u);
  // After a restart too, where the segments that the crash ended have no footer.
  log.reset();
  disk = disk.cut(FaultStorage::Cut::none, random);
  open();
  for (const int n : {0, 300, 599}) BOOST_TEST(found({id(n)}).size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_look_up_reads_little_of_the_segments_that_do_not_hold_the_id, Deep) {
  defer(0, 1000);
  storage.read_bytes = 0;
  for (auto scan = log->scan(); !scan->done();) BOOST_REQUIRE(scan->step(50).has_value());
  const auto whole = storage.read_bytes;
  storage.read_bytes = 0;
  for (int n = 0; n < 20; ++n) BOOST_TEST(found({"nobody" + std::to_string(n)}).empty());
  BOOST_TEST(storage.read_bytes / 20 < whole, storage.read_bytes / 20 << " of " << whole);
  storage.read_bytes = 0;
  BOOST_TEST(found({id(10)}).size() == 1u);
  BOOST_TEST(storage.read_bytes < whole);
}

BOOST_FIXTURE_TEST_CASE(a_footer_tells_which_messages_name_nothing_outside, Deep) {
  for (int n = 0; n < 600; ++n) {
    Envelope e = envelope(n);
    e.self_contained = n % 3 == 0;
    BOOST_REQUIRE(log->append(e).has_value());
    commit();
  }
  std::size_t told = 0;
  std::size_t seen = 0;
  for (auto scan = log->scan(); !scan->done();) {
    const auto some = scan->step(50);
    BOOST_REQUIRE(some.has_value());
    for (const auto& listed : *some) {
      ++seen;
      if (!listed.self_contained) continue;
      ++told;
      BOOST_TEST((std::stoi(listed.queue_id.substr(6)) - 100000) % 3 == 0);
    }
  }
  BOOST_TEST(seen == 600U);
  BOOST_TEST(told > 150U);  // not in the segment that has no footer yet
  BOOST_TEST(told <= 200U);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_footer_costs_time_and_no_message, Deep) {
  defer(0, 300);
  std::vector<SegmentHeader> sealed;
  for (const auto& slot : *disk.list()) {
    if (slot.slot == kPositionsSlot) continue;
    std::byte block[kDataStart], raw[kTrailer];
    BOOST_REQUIRE(disk.read(slot.slot, 0, block).has_value());
    const auto header = decode_segment_header(block);
    if (!header || header->interval != 300) continue;
    BOOST_REQUIRE(disk.read(slot.slot, header->size - kTrailer, raw).has_value());
    const auto last = decode_trailer(raw, *header);
    if (!last) continue;
    const auto record = *read_record(disk, *header, *last);
    BOOST_REQUIRE(record.has_value());
    const auto index = decode<IndexBody>(as_text(record->body()));
    BOOST_REQUIRE(index.has_value());
    BOOST_TEST(index->filter.size() >= IdFilter::kMinBytes);
    // One bit of the filter.
    std::byte byte[1];
    const std::uint64_t at = *last + kRecordHeader + record->body().size() - 5;
    BOOST_REQUIRE(disk.read(slot.slot, at, byte).has_value());
    byte[0] ^= std::byte{16};
    BOOST_REQUIRE(disk.write(slot.slot, at, byte).has_value());
    sealed.push_back(*header);
  }
  BOOST_REQUIRE(!sealed.empty());
  for (int n = 0; n < 300; n += 7) BOOST_TEST(found({id(n)}).size() == 1u, id(n));
}

BOOST_FIXTURE_TEST_CASE(the_log_is_shown_as_text_and_damage_is_named_and_passed_over, Deep) {
  defer(0, 300);
  const auto shown = [&](Dump& dump) { return dump.directory(disk).has_value(); };
  std::vector<std::string> lines;
  Dump whole({.verbose = true, .payload = {}}, [&](const std::string& l) { lines.push_back(l); });
  BOOST_REQUIRE(shown(whole));
  BOOST_TEST(whole.damage() == 0u);
  BOOST_TEST(whole.records() > 1200u);  // two envelopes, START and FINISH of each
  const auto envelope = std::find_if(lines.begin(), lines.end(), [](const std::string& l) {
    return l.find(" ENVELOPE ") != std::string::npos && l.find(id(150)) != std::string::npos &&
           l.find("generation 1") != std::string::npos;
  });
  BOOST_REQUIRE(envelope != lines.end());
  BOOST_TEST((envelope + 1)->find("sender <a@example.org>") != std::string::npos);

  // Ten bytes in the middle of that record.
  const auto place = found({id(150)}).begin()->second.place;
  for (const auto& slot : *disk.list()) {
    if (slot.slot == kPositionsSlot) continue;
    std::byte block[kDataStart];
    BOOST_REQUIRE(disk.read(slot.slot, 0, block).has_value());
    const auto header = decode_segment_header(block);
    if (!header || header->use != place.position.use) continue;
    BOOST_REQUIRE(disk.write(slot.slot, place.position.offset + 60, as_bytes("ten bytes!")).has_value());
  }
  std::vector<std::string> damage;
  Dump hurt({}, [&](const std::string& l) {
    if (l.starts_with("DAMAGE")) damage.push_back(l);
  });
  BOOST_REQUIRE(shown(hurt));
  BOOST_REQUIRE_EQUAL(damage.size(), 1u);
  BOOST_TEST(damage[0].starts_with("DAMAGE " + std::to_string(place.position.use) + ":" +
                                   std::to_string(place.position.offset) + " "),
             damage[0]);
  BOOST_TEST(hurt.records() == whole.records() - 1);
}

BOOST_FIXTURE_TEST_CASE(a_version_written_after_the_scan_began_is_marked_as_later, Deep) {
  defer(0, 100);
  auto scan = log->scan();
  BOOST_REQUIRE(scan->step(10).has_value());
  defer(100, 110);  // into the log that the scan is about to read, and past it
  int before = 0, later = 0;
  while (!scan->done()) {
    auto some = scan->step(10);
    BOOST_REQUIRE(some.has_value());
    for (const auto& l : *some) {
      ++(l.later ? later : before);
      BOOST_TEST(l.later == (l.queue_id >= id(100)), l.queue_id);
    }
  }
  BOOST_TEST(before == 100);  // what moved from the journal meanwhile is not missed
  BOOST_TEST(later >= 10);
}

BOOST_FIXTURE_TEST_CASE(what_moves_while_the_first_pass_runs_is_met_by_the_second, Deep) {
  defer(0, 3);
  BOOST_REQUIRE(log->append(envelope(7)).has_value());
  commit();
  auto due = log->runners().next_due(kJournal, clock.wall_now());
  BOOST_REQUIRE(due.has_value() && due->message);
  BOOST_REQUIRE(log->work().start(*due->message).has_value());
  commit();
  auto scan = log->scan();
  BOOST_TEST(scan->settled());
  BOOST_REQUIRE(log->work().defer(id(7), kFirstRetry, envelope(7)).has_value());
  std::set<std::string> seen;
  const auto step = [&] {
    auto some = scan->step(10000);
    BOOST_REQUIRE(some.has_value());
    for (const auto& l : *some) seen.insert(l.queue_id);
  };
  step();
  // It is on its way, and neither here nor there until it is written: time to wait for that.
  BOOST_TEST(seen.size() == 3u);
  BOOST_TEST(scan->second_pass());
  BOOST_TEST(!scan->settled());
  commit();
  BOOST_TEST(scan->settled());
  while (!scan->done()) step();
  BOOST_TEST(seen.contains(id(7)));
}

BOOST_FIXTURE_TEST_CASE(what_is_left_to_write_of_a_sealed_segment_is_met_by_the_second_pass, Deep) {
  int last = 0;
  for (; last < 20; ++last) BOOST_REQUIRE(log->append(envelope(last)).has_value());
  commit();
  // The journal goes on to another segment while the end of this one is still in memory.
  const auto first = log->append(envelope(last++));
  BOOST_REQUIRE(first.has_value());
  for (auto at = first->place.position; at.use == first->place.position.use; ++last) {
    const auto a = log->append(envelope(last));
    BOOST_REQUIRE(a.has_value());
    at = a->place.position;
  }
  auto scan = log->scan();
  std::multiset<std::string> seen;
  const auto step = [&] {
    auto some = scan->step(10000);
    BOOST_REQUIRE(some.has_value());
    for (const auto& l : *some) seen.insert(l.queue_id);
  };
  while (!scan->second_pass()) step();
  BOOST_TEST(seen.size() == 20u);
  commit();
  while (!scan->done()) step();
  BOOST_TEST(seen.size() == static_cast<std::size_t>(last));  // each once
  for (int n = 0; n < last; ++n) BOOST_TEST(seen.count(id(n)) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_flush_makes_due_what_waits_and_not_what_comes_after, Deep) {
  defer(0, 3);
  BOOST_TEST(!log->runners().next_due(kFirstRetry, clock.wall_now())->message.has_value());
  log->runners().make_due();
  defer(3, 5);
  int tried = 0;
  for (int look = 0; look < 100; ++look) {
    auto due = log->runners().next_due(kFirstRetry, clock.wall_now());
    BOOST_REQUIRE(due.has_value());
    if (due->message) {
      BOOST_TEST(due->message->envelope.queue_id == id(tried));
      BOOST_REQUIRE(log->work().start(*due->message).has_value());
      ++tried;
      continue;
    }
    if (!due->more && due->next && *due->next > clock.wall_now()) break;
    commit();
  }
  BOOST_TEST(tried == 3);
}

BOOST_AUTO_TEST_SUITE_END()
