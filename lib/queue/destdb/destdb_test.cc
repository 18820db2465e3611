#include "lib/queue/destdb/destdb.h"
#include "lib/queue/destdb/name.h"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>

#include "lib/base/lmdb/hints.h"
#include "lib/base/random.h"
#include "lib/testing/scratch.h"

namespace pen::destdb {
namespace {

const WallTime kNow{seconds(1'800'000'000)};

Facts used_at(WallTime t) {
  Facts f;
  f.last_close = f.used = t;
  f.shown = "mx.example[192.0.2.1]:25";
  return f;
}

struct Fixture {
  testing::ScratchDir scratch;
  std::string directory = scratch.file("destdb");
  std::unique_ptr<DestDb> open(WallTime now = kNow) {
    auto db = DestDb::open(directory, now);
    BOOST_REQUIRE_MESSAGE(db.has_value(), (db ? "" : db.error().message()));
    return std::move(*db);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(destdb, Fixture)

BOOST_AUTO_TEST_CASE(what_was_written_is_there_after_a_restart) {
  const std::string long_key(3000, 'x');
  {
    auto db = open();
    db->put("smtp\0a", used_at(kNow));
    db->put(long_key, used_at(kNow));
    BOOST_TEST(db->changed());
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
    BOOST_TEST(!db->changed());
    db->put("lost", used_at(kNow));
  }
  auto db = open();
  BOOST_TEST(db->warning().empty());
  BOOST_TEST(db->find(long_key).has_value());
  BOOST_TEST((db->find("smtp\0a") == used_at(kNow)));
  BOOST_TEST(!db->find("lost").has_value());
}

BOOST_AUTO_TEST_CASE(a_forgotten_destination_stays_forgotten) {
  {
    auto db = open();
    db->put("a", used_at(kNow));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
    BOOST_TEST(db->forget("a"));
    BOOST_TEST(!db->forget("a"));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  BOOST_TEST(open()->size() == 0U);
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside_and_made_anew) {
  {
    auto db = open();
    for (int i = 0; i < 1000; ++i) db->put("d" + std::to_string(i), used_at(kNow));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  for (const bool cut_short : {true, false}) {
    if (cut_short) {
      std::filesystem::resize_file(directory + "/data.mdb", 3 * 4096);
    } else {
      std::ofstream(directory + "/data.mdb")
          << "this is no database, but long enough to be looked at" << std::string(20000, '!');
    }
    auto db = open();
    BOOST_TEST(!db->warning().empty());
    BOOST_TEST(db->size() == 0U);
    BOOST_TEST(std::filesystem::exists(directory + "/damaged"));
    db->put("again", used_at(kNow));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_file_with_bytes_changed_at_random_never_crashes_us) {
  const std::string file = directory + "/data.mdb";
  for (int round = 0; round < 3; ++round) {  // several transactions, so that pages are allocated and freed
    auto db = open();
    for (int i = round; i < 1500; i += round + 1) db->put("d" + std::to_string(i), used_at(kNow));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  std::ifstream in(file, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(in), {});
  Random random(20260918);
  unsigned set_aside = 0;
  for (int round = 0; round < 300; ++round) {
    std::string content = good;
    const std::size_t page = random.below(3) == 0 ? random.below(2) : random.below(good.size() / 4096);
    content[page * 4096 + random.below(200)] = static_cast<char>(random.below(256));
    std::ofstream(file, std::ios::binary) << content;
    auto db = open();
    set_aside += db->warning().empty() ? 0 : 1;
    for (int i = 0; i < 50; ++i) db->put("n" + std::to_string(i * 31), used_at(kNow));
    (void)db->file()->write(db->take_changes());
  }
  BOOST_TEST(set_aside > 20U);
}

BOOST_AUTO_TEST_CASE(stale_records_are_collected) {
  auto db = open();
  db->put("old", used_at(kNow - std::chrono::hours(24 * 8)));
  db->put("new", used_at(kNow - std::chrono::hours(24)));
  Facts failing = used_at(kNow - std::chrono::hours(30));
  failing.failures = 2;
  failing.next_retry = kNow - std::chrono::hours(25);
  db->put("failed", failing);
  failing.next_retry = kNow + std::chrono::hours(1);
  db->put("failing", failing);
  BOOST_TEST(db->collect(kNow) == 2U);
  BOOST_TEST(db->find("new").has_value());
  BOOST_TEST(db->find("failing").has_value());
}

BOOST_AUTO_TEST_CASE(the_collector_goes_round_in_slices) {
  auto db = open();
  for (int i = 0; i < 3000; ++i)
    db->put("d" + std::to_string(i), used_at(kNow - std::chrono::hours(i % 3 == 0 ? 24 * 8 : 1)));
  std::size_t gone = 0, most_at_once = 0;
  for (int slice = 0; slice < 2000 && gone < 1000; ++slice) {
    const std::size_t n = db->collect_some(kNow, 10).size();
    most_at_once = std::max(most_at_once, n);
    gone += n;
  }
  BOOST_TEST(gone == 1000U);
  BOOST_TEST(most_at_once < 100U);
  BOOST_TEST(db->size() == 2000U);
  BOOST_TEST(!db->find("d3").has_value());
}

BOOST_AUTO_TEST_CASE(a_full_table_drops_what_was_not_used_for_long) {
  auto db = open();
  db->limit_records(1000);
  for (int i = 0; i < 1000; ++i) db->put("old" + std::to_string(i), used_at(kNow - seconds(5000)));
  for (int i = 0; i < 500; ++i) db->put("new" + std::to_string(i), used_at(kNow));
  BOOST_TEST(db->size() == 1000U);
  int kept = 0;
  for (int i = 0; i < 500; ++i) kept += db->find("new" + std::to_string(i)).has_value() ? 1 : 0;
  BOOST_TEST(kept > 450);
  db->put("new499", used_at(kNow));  // known: replaces no other
  BOOST_TEST(db->size() == 1000U);
}

BOOST_AUTO_TEST_CASE(changes_are_taken_in_batches_orders_first) {
  auto db = open();
  for (int i = 0; i < 10; ++i) db->put("d" + std::to_string(i), used_at(kNow));
  db->suspend({"mx.example", "why", kNow});
  const auto first = db->take_changes(4);
  BOOST_TEST(first.size() == 4U);
  BOOST_TEST(
      std::any_of(first.begin(), first.end(), [](const Change& c) { return c.kind == Change::Kind::suspension; }));
  BOOST_TEST(db->changed());
  BOOST_TEST(db->take_changes(4).size() == 4U);
  BOOST_TEST(db->take_changes(4).size() == 3U);
  BOOST_TEST(!db->changed());
}

BOOST_AUTO_TEST_CASE(a_suspension_outlives_a_restart_and_every_collection) {
  {
    auto db = open();
    db->suspend({"mx.example", "moving house", kNow});
    db->suspend({"other.example", "", kNow});
    BOOST_TEST(db->changed());
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  {
    auto db = open(kNow + std::chrono::hours(24 * 365));
    BOOST_REQUIRE(db->suspensions().contains("mx.example"));
    BOOST_TEST(db->suspensions().at("mx.example").reason == "moving house");
    BOOST_TEST(db->resume("mx.example"));
    BOOST_TEST(!db->resume("mx.example"));
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  auto db = open();
  BOOST_TEST(!db->suspensions().contains("mx.example"));
  BOOST_TEST(db->suspensions().contains("other.example"));
}

BOOST_AUTO_TEST_CASE(a_note_outlives_a_restart_until_it_is_taken_away) {
  const std::string key("a\0one.example", 13);
  {
    auto db = open();
    db->note(key, "bytes\n");
    db->note("gone", "x");
    db->note("gone", std::nullopt);
    BOOST_TEST(db->changed());
    const auto changes = db->take_changes();
    db->put_back(changes);
    BOOST_TEST(db->changes() == 2U);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  {
    auto db = open(kNow + std::chrono::hours(24 * 400));
    BOOST_TEST((db->notes() == std::map<std::string, std::string>{{key, "bytes\n"}}));
    db->note(key, std::nullopt);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  BOOST_TEST(open()->notes().empty());
}

BOOST_AUTO_TEST_CASE(a_note_that_is_taken_alone_is_not_with_the_next_changes) {
  auto db = open();
  db->note("a", "1");
  db->note("b", "2");
  auto alone = db->take_notes({"a", "not changed"});
  BOOST_TEST_REQUIRE(alone.size() == 1U);
  BOOST_TEST(alone[0].key == "a");
  BOOST_TEST((alone[0].note == "1"));
  BOOST_TEST(db->take_notes({"a"}).empty());
  BOOST_TEST(db->changes() == 1U);
  db->put_back(alone);
  db->note("a", std::nullopt);
  alone = db->take_notes({"a"});
  BOOST_TEST_REQUIRE(alone.size() == 1U);
  BOOST_TEST(!alone[0].note.has_value());
}

BOOST_AUTO_TEST_CASE(what_could_not_be_written_is_written_with_the_next_changes) {
  auto db = open();
  db->put("a", used_at(kNow));
  db->suspend({"mx.example", "why", kNow});
  const auto lost = db->take_changes();
  BOOST_TEST(lost.size() == 2U);
  db->put_back(lost);
  db->resume("mx.example");
  const auto again = db->take_changes();
  BOOST_REQUIRE(again.size() == 2U);
  BOOST_TEST(again[0].facts.has_value());
  BOOST_TEST(!again[1].suspension.has_value());
}

BOOST_AUTO_TEST_CASE(a_tool_reads_in_slices_while_its_owner_writes) {
  auto db = open();
  for (int i = 0; i < 1000; ++i) db->put("d" + std::to_string(i), used_at(kNow));
  db->suspend({"mx.example", "why", kNow});
  BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  auto reader = open_reader(directory, false);
  BOOST_REQUIRE(reader.has_value());
  std::size_t records = 0, suspensions = 0;
  for (int slice = 0; !(*reader)->done(); ++slice) {
    auto some = (*reader)->next(7);
    BOOST_REQUIRE(some.has_value());
    BOOST_TEST(some->facts.size() <= 7U);
    records += some->facts.size();
    suspensions += some->suspensions.size();
    // The writer does not wait, and removals while the reader works do no harm.
    db->put("e" + std::to_string(slice), used_at(kNow));
    if (slice == 0 && !some->facts.empty()) db->forget(some->facts.back().first);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  BOOST_TEST(records >= 1000U);
  BOOST_TEST(suspensions == 1U);
}

BOOST_AUTO_TEST_CASE(learned_limits_are_kept_by_provider_source_and_domain) {
  const std::string big = std::string("big") + '\0' + "-" + '\0',
                    of_one = std::string("big") + '\0' + '\0' + "a.example";
  {
    auto db = open();
    shaping::Learned l;
    l.rate = shaping::Rate::per_minute(10).thousandths;
    l.reason = "too many";
    l.used = kNow;
    db->put_learned(big, l);
    l.ordered = 5;
    db->put_learned(of_one, l);
    db->put_learned(std::string(600, 'x'), l);
    const auto changes = db->take_changes();
    BOOST_TEST(changes.size() == 3U);
    db->put_back(changes);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  {
    auto db = open();
    BOOST_REQUIRE(db->find_learned(big).has_value());
    BOOST_TEST(db->find_learned(big)->reason == "too many");
    BOOST_TEST(db->find_learned(of_one)->ordered == 5U);
    BOOST_TEST(db->find_learned(std::string(600, 'x')).has_value());
    BOOST_TEST(!db->changed());
    db->forget_learned(big);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
    // After a year only orders are left.
    shaping::Learned old;
    old.used = kNow;
    db->put_learned(big, old);
    db->collect(kNow + DestDb::kKeptLearned + seconds(1));
    BOOST_TEST(!db->find_learned(big).has_value());
    BOOST_TEST(db->find_learned(of_one).has_value());
  }
  BOOST_TEST(!open()->find_learned(big).has_value());
}

namespace {
/// What was learned, as versions wrote it that knew no orders of several rates.
struct EarlierLearned {
  std::uint64_t rate = 0, stood = 0, refused = 0;
  std::uint32_t patience = 1, complaints = 0;
  WallTime complained{}, held_until{}, next_rise{};
  std::uint64_t ordered = 0;
  std::uint32_t connections = 0;
  WallTime connections_until{};
  std::string reason, rule;
  WallTime used{};
  std::string block;
  std::uint32_t step = 0, falls = 0, in_vain = 0;
  PEN_FIELDS(rate, stood, refused, patience, complaints, complained, held_until, next_rise, ordered, connections,
             connections_until, reason, rule, used, block, step, falls, in_vain)
};
struct EarlierRecord {
  std::string key;
  EarlierLearned learned;
  PEN_FIELDS(key, learned)
};
}  // namespace

BOOST_AUTO_TEST_CASE(earlier_versions_read_what_was_learned_without_several_rates_and_are_read) {
  {
    auto db = open();
    shaping::Learned l;
    l.rate = 7000;
    l.in_vain = 3;
    l.used = kNow;
    db->put_learned("one", l);
    l.ordered_rates = "20/s,5000/h";
    db->put_learned("several", l);
    BOOST_REQUIRE(db->file()->write(db->take_changes()).has_value());
  }
  {
    auto file = lmdb::open_hints(directory, std::size_t{1} << 31);
    BOOST_REQUIRE(file.has_value());
    std::vector<EarlierRecord> earlier;
    std::string key;
    BOOST_REQUIRE(lmdb::Read::begin(**file)->each("r", [&](std::string_view at, std::string_view value) {
      if (auto r = decode<EarlierRecord>(value)) {
        earlier.push_back(*std::move(r));
        key = at;
      }
      return true;
    }));
    BOOST_TEST_REQUIRE(earlier.size() == 1U);  // the other one is a lost hint to them
    BOOST_TEST(earlier[0].key == "one");
    BOOST_TEST(earlier[0].learned.rate == 7000U);
    BOOST_TEST(earlier[0].learned.in_vain == 3U);
    earlier[0].learned.ordered = 5000;
    auto write = lmdb::Write::begin(**file);
    BOOST_REQUIRE(write->put(key, encode(earlier[0])));
    BOOST_REQUIRE(write->commit());
  }
  const auto db = open();
  BOOST_TEST_REQUIRE(db->find_learned("one").has_value());
  BOOST_TEST(db->find_learned("one")->ordered == 5000U);
  BOOST_TEST(db->find_learned("one")->ordered_rates.empty());
  BOOST_TEST_REQUIRE(db->find_learned("several").has_value());
  BOOST_TEST(db->find_learned("several")->ordered_rates == "20/s,5000/h");
}

BOOST_AUTO_TEST_CASE(a_reader_says_that_there_is_nothing_to_read) {
  BOOST_TEST(!open_reader(directory, true).has_value());
}

BOOST_AUTO_TEST_CASE(names_have_one_form) {
  const auto form = [](std::string_view text) { return destination_name(text).value_or("none"); };
  BOOST_TEST(form("source:Far-1.a_b") == "source:Far-1.a_b");  // a source of outgoing mail, not a host
  BOOST_TEST(form("source:25") == "[source]:25");
  BOOST_TEST(form("source:a b") == "none");
  BOOST_TEST(form("source:") == "none");
  BOOST_TEST(form(" MX.Example.org. ") == "mx.example.org");
  BOOST_TEST(form("[192.0.2.1]") == "192.0.2.1");
  BOOST_TEST(form("[192.0.2.1]:25") == "[192.0.2.1]:25");
  BOOST_TEST(form("mx.example:587") == "[mx.example]:587");
  BOOST_TEST(form("2001:DB8::1") == "2001:db8::1");
  BOOST_TEST(form("mx.example[192.0.2.1]:25") == "[192.0.2.1]:25");
  BOOST_TEST(form("mx.example[2001:db8::1]:25") == "[2001:db8::1]:25");
  for (const char* wrong :
       {"", "a b", "user@example.org", "[mx", "mx]", "mx.example:", "mx.example:0", "[mx.example]:70000", "[]:25",
        "a[b]", "a[192.0.2.1]:0", "a[b[c]:25", "*", "a,b", ".", "192.0.2.0/24", "2001:db8::/32"})
    BOOST_TEST(form(wrong) == "none", wrong);
  BOOST_TEST(form(std::string(301, 'a')) == "none");
  BOOST_TEST(form(".Example.org.") == ".example.org");
  BOOST_TEST(form("unix:private/x") == "unix:private/x");
  using Names = std::vector<std::string>;
  BOOST_TEST((names_of("MX.b.example", "192.0.2.1", 25) ==
              Names{"mx.b.example", "[mx.b.example]:25", ".b.example", ".example", "192.0.2.1", "[192.0.2.1]:25"}));
  BOOST_TEST((names_of("", "2001:db8::1", 0) == Names{"2001:db8::1"}));
  BOOST_TEST((names_of_nexthop("[relay.example]:587") == Names{"relay.example", "[relay.example]:587", ".example"}));
  BOOST_TEST((names_of_nexthop("unix:private/x.y") == Names{"unix:private/x.y"}));
  const auto shown = parse_shown("mx.example[2001:db8::1]:25");
  BOOST_TEST(shown.host == "mx.example");
  BOOST_TEST(shown.address == "2001:db8::1");
  BOOST_TEST(shown.port == 25);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::destdb
