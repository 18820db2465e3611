#include "lib/send/egress/ledger.h"

#include <boost/test/unit_test.hpp>
#include <map>

namespace pen::egress {
namespace {

constexpr std::uint32_t kNew = 0, kOld = 1, kLater = 2;
WallTime day(int n, int hours = 12) { return WallTime(seconds(n * 86400 + hours * 3600)); }

struct Fixture {
  File file = parse("source new warmup=yes\nsource old\nsource later warmup=1970-04-11\n").file;
  Ledger ledger{file, {10, 20}};

  /// As many as are reserved, up to n.
  std::uint32_t send_reserved(Ledger& by, std::uint32_t n, WallTime t) {
    std::uint32_t sent = 0;
    while (sent < n && by.obstacle(kNew, "one.example", t).empty() && by.reserved(kNew, "one.example", t)) {
      by.take(kNew, "one.example", t);
      ++sent;
    }
    return sent;
  }
  void send(std::uint32_t s, int n, int taken, WallTime t, const char* group = "one.example") {
    for (int i = 0; i < n; ++i) {
      ledger.take(s, group, t);
      if (i < taken) ledger.accepted(s, group, t);
    }
  }
  bool usable(std::uint32_t s, WallTime t, const char* group = "one.example") const {
    return ledger.obstacle(s, group, t).empty();
  }
  Entry only(std::uint32_t s, WallTime t) const {
    const auto all = ledger.entries_of(s, t);
    BOOST_REQUIRE_EQUAL(all.size(), 1U);
    return all.front();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(egress_ledger, Fixture)

BOOST_AUTO_TEST_CASE(a_warm_up_allows_so_many_to_each_group_on_a_day) {
  send(kNew, 9, 9, day(100));
  BOOST_TEST(usable(kNew, day(100)));
  send(kNew, 1, 1, day(100));
  BOOST_TEST(ledger.obstacle(kNew, "one.example", day(100, 23)) ==
             "its warm-up allows 10 messages to one.example today");
  BOOST_TEST(usable(kNew, day(100), "two.example"));
  BOOST_TEST(usable(kNew, day(101, 0)));
  send(kOld, 1000, 1000, day(100));
  BOOST_TEST(usable(kOld, day(100)));
  BOOST_TEST(ledger.entries_of(kOld, day(100)).empty());
}

BOOST_AUTO_TEST_CASE(a_stage_rises_after_a_day_on_which_nine_tenths_were_taken) {
  send(kNew, 10, 9, day(100));
  BOOST_TEST(only(kNew, day(100)).stage == 0U);
  BOOST_TEST(only(kNew, day(105)).stage == 1U);  // days of sending count, not those between
  send(kNew, 20, 17, day(105));
  BOOST_TEST(!usable(kNew, day(105)));
  BOOST_TEST(only(kNew, day(106)).stage == 1U);  // too many were deferred
  send(kNew, 20, 18, day(106));
  BOOST_TEST(only(kNew, day(107)).stage == 2U);
  send(kNew, 1000, 1000, day(107));
  BOOST_TEST(usable(kNew, day(107)));  // behind the last stage
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_put_back_begins_no_day) {
  send(kNew, 10, 10, day(100));
  BOOST_TEST(!usable(kNew, day(99)));
}

BOOST_AUTO_TEST_CASE(a_warm_up_with_a_day_begins_then_and_anew_with_another_day) {
  BOOST_TEST(ledger.obstacle(kLater, "one.example", day(99)) == "its warm-up has not begun");
  send(kLater, 10, 10, day(100));
  BOOST_TEST(only(kLater, day(101)).stage == 1U);
  const auto kept = ledger.take_changes();
  file = parse("source new\nsource old\nsource later warmup=1970-05-01\n").file;
  Ledger again(file, {10, 20});
  for (const auto& c : kept) BOOST_TEST(again.load(*c.value));
  BOOST_TEST(again.entries_of(kLater, day(130)).front().stage == 0U);
}

BOOST_AUTO_TEST_CASE(what_was_counted_and_blocked_is_known_after_a_restart) {
  send(kNew, 10, 4, day(100));
  ledger.block(kOld, "two.example", day(100), day(101), "listed \n somewhere");
  const auto kept = ledger.take_changes();
  BOOST_TEST(kept.size() == 2U);
  BOOST_TEST(ledger.take_changes().empty());
  Ledger again(file, {10, 20});
  for (const auto& c : kept) BOOST_TEST(again.load(*c.value));
  BOOST_TEST(!again.obstacle(kNew, "one.example", day(100)).empty());
  BOOST_TEST(again.obstacle(kOld, "two.example", day(100)) == "listed ? somewhere");
  BOOST_TEST((again.entries_of(kNew, day(100)) == ledger.entries_of(kNew, day(100))));
  File other = parse("source else\n").file;
  Ledger without(other, {10});
  for (const auto& c : kept) BOOST_TEST(!without.load(*c.value));
  BOOST_TEST(!again.load("junk"));
}

BOOST_AUTO_TEST_CASE(nothing_is_taken_whose_count_a_kill_would_lose) {
  Ledger wide(file, {320, 640});
  std::uint32_t sent = 0;
  std::map<std::string, std::string> written;
  const auto write_of = [&](Ledger& of, bool last) {
    const auto changes = of.take_changes(last);
    for (const auto& c : changes) written[c.key] = *c.value;
    of.kept(changes);
  };
  // Killed at the worst time, again and again: never more than the day's number, and it is used but for a part.
  for (int life = 0; life < 4; ++life) {
    Ledger now(file, {320, 640});
    for (const auto& [key, value] : written) BOOST_TEST(now.load(value));
    BOOST_TEST(send_reserved(now, 5, day(100)) == 0U);  // not before it is written
    for (int i = 0; i <= life; ++i) {
      write_of(now, false);
      sent += send_reserved(now, 1000, day(100));
    }
  }
  BOOST_TEST(sent >= 90U);
  Ledger last(file, {320, 640});
  for (const auto& [key, value] : written) BOOST_TEST(last.load(value));
  while (last.obstacle(kNew, "one.example", day(100)).empty()) {
    (void)last.reserved(kNew, "one.example", day(100));
    write_of(last, false);
    sent += send_reserved(last, 1000, day(100));
  }
  BOOST_TEST(sent <= 320U);
  BOOST_TEST(sent >= 320U - 5 * 10, sent);
  // Another day begins without a reserve of its own.
  BOOST_TEST(!last.reserved(kNew, "one.example", day(101)));
  // A process that ends by itself leaves the count as it is.
  written.clear();
  (void)wide.reserved(kNew, "one.example", day(100));
  write_of(wide, false);
  BOOST_TEST(send_reserved(wide, 4, day(100)) == 4U);
  write_of(wide, true);
  Ledger next(file, {320, 640});
  for (const auto& [key, value] : written) BOOST_TEST(next.load(value));
  BOOST_TEST(next.entries_of(kNew, day(100)).front().taken == 4U);
  BOOST_TEST(next.reserved(kOld, "one.example", day(100)));  // not warmed up: nothing is counted
}

BOOST_AUTO_TEST_CASE(a_stop_long_after_the_last_mail_leaves_the_count_as_it_is) {
  Ledger wide(file, {320, 640});
  (void)wide.reserved(kNew, "one.example", day(100));
  wide.kept(wide.take_changes());
  BOOST_TEST(send_reserved(wide, 4, day(100)) == 4U);
  wide.kept(wide.take_changes());  // nothing is sent after this
  const auto changes = wide.take_changes(true);
  BOOST_REQUIRE(changes.size() == 1U);
  Ledger next(file, {320, 640});
  BOOST_TEST(next.load(*changes.front().value));
  BOOST_TEST(next.entries_of(kNew, day(100)).front().taken == 4U);
  wide.kept(changes);
  BOOST_TEST(wide.take_changes(true).empty());  // it is exact already
}

BOOST_AUTO_TEST_CASE(a_block_holds_for_its_group_until_its_end) {
  ledger.block(kOld, "one.example", day(100), day(102), "S3150");
  ledger.block(kOld, "one.example", day(100), day(101), "earlier");  // does not shorten it
  BOOST_TEST(!usable(kOld, day(101, 13)));
  BOOST_TEST(usable(kOld, day(101), "two.example"));
  BOOST_TEST(usable(kOld, day(102)));
  ledger.block(kOld, "one.example", day(100), day(103), "again");
  ledger.unblock(kOld, "one.example");
  BOOST_TEST(usable(kOld, day(100)));
}

BOOST_AUTO_TEST_CASE(a_source_whose_proxy_fails_rests_for_longer_each_time) {
  WallTime t = day(100);
  BOOST_TEST(ledger.failed(kOld, t, "proxy down").count() == 30);
  BOOST_TEST(ledger.failed(kOld, t + seconds(1), "proxy down").count() == 0);  // of the same time
  BOOST_TEST(ledger.obstacle(kOld, "x", t + seconds(29)) == "proxy down");
  BOOST_TEST(ledger.obstacle(kOld, "x", t + seconds(30)).empty());
  long last = 30;
  for (int i = 0; i < 8; ++i) {
    t += seconds(1000);
    const long rest = ledger.failed(kOld, t, "proxy down").count();
    BOOST_TEST((rest == std::min(last * 2, 900L)));
    last = rest;
  }
  ledger.works(kOld);
  BOOST_TEST(ledger.failed(kOld, t + seconds(1), "proxy down").count() == 30);
}

BOOST_AUTO_TEST_CASE(groups_are_bounded) {
  for (std::size_t i = 0; i < kMaxEntries + 5; ++i) ledger.take(kNew, "d" + std::to_string(i), day(100));
  BOOST_TEST(ledger.entries_of(kNew, day(100)).size() == kMaxEntries + 1);
  send(kNew, 5, 5, day(100), "one.example");  // counts with the others
  BOOST_TEST(!usable(kNew, day(100)));
  send(kNew, 1, 1, day(101), "one.example");  // what was not used on that day goes
  BOOST_TEST(ledger.entries_of(kNew, day(101)).size() <= 2U);
}

BOOST_AUTO_TEST_CASE(a_schedule_is_rising_numbers) {
  BOOST_TEST((parse_schedule({"1", "2"}) == std::vector<std::uint32_t>{1, 2}));
  for (const auto& words : std::vector<std::vector<std::string>>{{"0"}, {"2", "2"}, {"x"}, {"-1"}, {"200000000"}})
    BOOST_TEST(!parse_schedule(words).has_value());
  BOOST_TEST(parse_schedule({})->empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::egress
