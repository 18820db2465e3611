#include "verify/cache.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using pen::verify::Cache;
using pen::verify::CacheRules;
using pen::verify::State;

namespace {

struct Fixture {
  WallTime now{seconds(1'000'000'000)};
  Cache cache{CacheRules{.good_expires = seconds(1000 * 100),
                         .good_refresh = seconds(1000 * 10),
                         .failed_expires = seconds(1000 * 20),
                         .failed_refresh = seconds(1000 * 2)}};

  /// "good", "bad?" (to be refreshed), "unknown".
  std::string state(const std::string& key = "a@x.example") {
    const auto known = cache.find(key, now);
    if (!known) return "unknown";
    const std::string word = known->state == State::good ? "good" : known->state == State::bad ? "bad" : "deferred";
    return word + (known->refresh ? "?" : "");
  }
  void result(State state, const char* text = "", const std::string& key = "a@x.example") {
    cache.result(key, state, text, now);
  }
  /// The records that a file would have.
  std::map<std::string, std::string> written() {
    std::map<std::string, std::string> out;
    for (const auto& change : cache.take_changes(10'000))
      if (change.value)
        out[change.key] = *change.value;
      else
        out.erase(change.key);
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(verify_cache, Fixture)

BOOST_AUTO_TEST_CASE(a_good_result_is_refreshed_while_it_holds_and_expires) {
  BOOST_TEST(state() == "unknown");
  result(State::good);
  BOOST_TEST(state() == "good");
  now += seconds(10'000);
  BOOST_TEST(state() == "good");
  now += seconds(1);
  BOOST_TEST(state() == "good?");
  now += seconds(90'000);
  BOOST_TEST(state() == "unknown");
}

BOOST_AUTO_TEST_CASE(failures_have_times_of_their_own) {
  for (const State failed : {State::bad, State::deferred}) {
    const std::string word = failed == State::bad ? "bad" : "deferred";
    result(failed, "550 nobody");
    BOOST_TEST(cache.find("a@x.example", now)->text == "550 nobody");
    now += seconds(2001);
    BOOST_TEST(state() == word + "?");
    now += seconds(18'000);
    BOOST_TEST(state() == "unknown");
  }
}

BOOST_AUTO_TEST_CASE(a_failure_does_not_take_the_place_of_a_good_result_that_holds) {
  result(State::good);
  now += seconds(50'000);
  BOOST_TEST((cache.result("a@x.example", State::bad, "full", now).state == State::good));
  BOOST_TEST(state() == "good?");
  now += seconds(50'001);
  BOOST_TEST((cache.result("a@x.example", State::bad, "full", now).state == State::bad));
  BOOST_TEST(state() == "bad");
  result(State::good);
  BOOST_TEST(state() == "good");
}

BOOST_AUTO_TEST_CASE(what_is_being_refreshed_is_not_asked_for_again_for_a_while) {
  result(State::good);
  now += seconds(10'001);
  BOOST_TEST(state() == "good?");
  cache.probed("a@x.example", now);
  BOOST_TEST(state() == "good");
  now += Cache::kProbeTime + seconds(1);
  BOOST_TEST(state() == "good?");
}

BOOST_AUTO_TEST_CASE(without_a_negative_cache_failures_are_not_kept) {
  cache = Cache(CacheRules{.keep_failed = false});
  BOOST_TEST((cache.result("a@x.example", State::bad, "no", now).state == State::bad));
  BOOST_TEST(state() == "unknown");
  result(State::good);
  BOOST_TEST(state() == "good");
}

BOOST_AUTO_TEST_CASE(a_full_table_drops_the_oldest_failure_and_good_results_last) {
  cache = Cache(CacheRules{}, 3);
  result(State::good, "", "good@x");
  now += seconds(1);
  result(State::bad, "", "old@x");
  now += seconds(1);
  result(State::bad, "", "new@x");
  result(State::bad, "", "other@x");
  BOOST_TEST(cache.size() == 3U);
  BOOST_TEST(state("old@x") == "unknown");
  BOOST_TEST(state("good@x") == "good");
  for (int i = 0; i < 1000; ++i) result(State::good, "", std::to_string(i) + "@x");
  BOOST_TEST(cache.size() == 3U);
  BOOST_TEST(state("good@x") == "unknown");
  BOOST_TEST(state("999@x") == "good");
}

BOOST_AUTO_TEST_CASE(long_addresses_make_no_large_table) {
  const std::string longest(2000, 'l');
  for (int i = 0; i < 30'000; ++i) result(State::bad, longest.c_str(), longest + std::to_string(i) + "@x");
  BOOST_TEST(cache.bytes() <= Cache::kMostBytes);
  BOOST_TEST(cache.size() > 10'000U);
  BOOST_TEST(state(longest + "29999@x") == "bad");
  BOOST_TEST(state(longest + "0@x") == "unknown");
  while (cache.size() > 0) BOOST_REQUIRE(cache.forget(cache.list("", 1).front().address));
  BOOST_TEST(cache.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_keeps_no_result_for_longer) {
  result(State::bad);
  now -= seconds(1'000'000);
  BOOST_TEST(state() == "bad");
  now += seconds(20'001);
  BOOST_TEST(state() == "unknown");
}

BOOST_AUTO_TEST_CASE(records_come_back_from_the_file) {
  result(State::good, "250 ok", "a@x.example");
  now += seconds(1);
  result(State::bad, "550 no", "\"odd \xff\\\" one\"@x.example");
  const auto records = written();
  BOOST_TEST(records.size() == 2U);
  Cache other{CacheRules{}};
  for (const auto& [key, value] : records) other.take(key, value, now, true);
  std::swap(cache, other);
  BOOST_TEST(!cache.changed());
  BOOST_TEST(state("a@x.example") == "good");
  BOOST_TEST(state("\"odd \xff\\\" one\"@x.example") == "bad");
  BOOST_TEST(cache.find("a@x.example", now)->text == "250 ok");
}

BOOST_AUTO_TEST_CASE(records_that_make_no_sense_are_lost_hints) {
  const std::string noise(100, '\xff');
  for (const std::string_view value : {std::string_view(), std::string_view("x"), std::string_view(noise)})
    cache.take("a@x", value, now, true);
  cache.take(
      "",
      *[&] {
        result(State::good);
        return cache.record("a@x.example");
      }(),
      now, true);
  BOOST_TEST(cache.size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_another_host_learned_later_counts) {
  Cache other{CacheRules{}};
  result(State::bad, "no");
  other.result("a@x.example", State::good, "ok", now + seconds(5));
  now += seconds(10);
  cache.take("a@x.example", *other.record("a@x.example"), now, false);
  BOOST_TEST(state() == "good");
  other.result("a@x.example", State::good, "again", now - seconds(8));
  cache.take("a@x.example", *other.record("a@x.example"), now, false);
  BOOST_TEST(cache.find("a@x.example", now)->text == "ok");
}

BOOST_AUTO_TEST_CASE(expired_results_are_dropped_in_slices_and_removed_from_the_file) {
  for (int i = 0; i < 10; ++i) result(State::bad, "", std::to_string(i) + "@x");
  result(State::good, "", "good@x");
  (void)cache.take_changes(100);
  now += seconds(20'001);
  BOOST_TEST(cache.drop_expired(now, 4) == 4U);
  BOOST_TEST(cache.drop_expired(now, 100) == 6U);
  BOOST_TEST(cache.drop_expired(now, 100) == 0U);
  BOOST_TEST(cache.size() == 1U);
  const auto changes = cache.take_changes(100);
  BOOST_TEST(changes.size() == 10U);
  for (const auto& change : changes) BOOST_TEST(!change.value.has_value());
}

BOOST_AUTO_TEST_CASE(texts_are_cut_and_addresses_too_long_for_the_file_stay_in_memory) {
  result(State::bad, std::string(5000, 'x').c_str(), "a@x");
  BOOST_TEST(cache.find("a@x", now)->text.size() == ipc::verify::kMostText);
  (void)cache.take_changes(100);
  const std::string longest = std::string(600, 'l') + "@x";
  result(State::bad, "", longest);
  BOOST_TEST(state(longest) == "bad");
  BOOST_TEST(cache.take_changes(100).empty());
}

BOOST_AUTO_TEST_CASE(entries_are_listed_page_by_page) {
  for (const char* key : {"c@x", "a@x", "b@x"}) result(State::bad, "no", key);
  BOOST_TEST(cache.list("", 2).size() == 2U);
  BOOST_TEST(cache.list("", 2).front().address == "a@x");
  BOOST_TEST(cache.list("b@x", 2).front().address == "c@x");
  BOOST_TEST(cache.entry("b@x")->text == "no");
  BOOST_TEST(cache.forget("b@x"));
  BOOST_TEST(!cache.forget("b@x"));
  BOOST_TEST(!cache.entry("b@x").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
