// The greylist by itself: which clients wait, pass and are known, what is forgotten, and what a flood costs.
#include "anvil/greylist.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/manual_clock.h"

using namespace pen;
using pen::anvil::Greylist;

namespace {

struct Fixture {
  static Greylist::Question question(std::string client, std::string sender = "a@x", std::string recipient = "b@y") {
    Greylist::Question q;
    q.client = std::move(client);
    q.sender = std::move(sender);
    q.recipient = std::move(recipient);
    q.delay = 300;
    q.window = 3600;
    q.keep = 86400;
    q.passes = 3;
    return q;
  }
  /// "wait N", "delayed N" or "pass".
  std::string ask(const Greylist::Question& q) {
    const auto answer = list.ask(q, clock.wall_now());
    if (answer.wait > 0) return "wait " + std::to_string(answer.wait);
    return answer.delayed > 0 ? "delayed " + std::to_string(answer.delayed) : "pass";
  }
  std::string ask(std::string client, std::string sender = "a@x", std::string recipient = "b@y") {
    return ask(question(std::move(client), std::move(sender), std::move(recipient)));
  }
  void pass(seconds time) { clock.advance(time); }
  /// What is stored, as another list takes it.
  Greylist copy() {
    Greylist out;
    for (const auto& change : list.take_changes(SIZE_MAX))
      if (change.value) out.take(change.key, *change.value);
    return out;
  }
  /// Asks the other host, after it has learnt what this one sends about the question; sends this one what follows.
  std::string ask_other(const Greylist::Question& q) {
    exchange(list, other);
    std::swap(list, other);
    const std::string answer = ask(q);
    std::swap(list, other);
    exchange(other, list);
    return answer;
  }
  void exchange(Greylist& from, Greylist& to) {
    for (const auto& told : from.take_told()) {
      BOOST_TEST(told.seconds > 0);
      to.learn(told.key, told.value, clock.wall_now());
    }
  }
  void share() {
    list.tell_others();
    other.tell_others();
  }
  pen::testing::ManualClock clock;
  Greylist list, other;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(greylist_core, Fixture)

BOOST_AUTO_TEST_CASE(a_triplet_waits_passes_once_with_its_delay_and_passes_from_then_on) {
  BOOST_TEST(ask("192.0.2.0") == "wait 300");
  pass(seconds(120));
  BOOST_TEST(ask("192.0.2.0") == "wait 180");  // trying early does not prolong it
  BOOST_TEST(ask("192.0.2.0", "other@x") == "wait 300");
  BOOST_TEST(ask("192.0.2.0", "a@x", "other@y") == "wait 300");
  BOOST_TEST(ask("198.51.100.0") == "wait 300");
  pass(seconds(180));
  BOOST_TEST(ask("192.0.2.0") == "delayed 300");
  BOOST_TEST(ask("192.0.2.0") == "pass");
  pass(seconds(86000));
  BOOST_TEST(ask("192.0.2.0") == "pass");
  pass(seconds(86401));
  BOOST_TEST(ask("192.0.2.0") == "wait 300");  // not used for too long
}

BOOST_AUTO_TEST_CASE(who_comes_back_after_the_window_begins_anew) {
  ask("192.0.2.0");
  pass(seconds(3600));
  BOOST_TEST(ask("192.0.2.0") == "delayed 3600");
  ask("198.51.100.0");
  pass(seconds(3601));
  BOOST_TEST(ask("198.51.100.0") == "wait 300");
}

BOOST_AUTO_TEST_CASE(a_client_that_came_back_often_enough_is_known_until_it_stays_away) {
  for (const std::string sender : {"1@x", "2@x", "3@x"}) ask("192.0.2.0", sender);
  pass(seconds(300));
  for (const std::string sender : {"1@x", "2@x"}) BOOST_TEST(ask("192.0.2.0", sender) == "delayed 300");
  BOOST_TEST(ask("192.0.2.0", "4@x") == "wait 300");
  BOOST_TEST(ask("192.0.2.0", "2@x") == "pass");  // passing again does not count
  BOOST_TEST(ask("192.0.2.0", "5@x") == "wait 300");
  BOOST_TEST(ask("192.0.2.0", "3@x") == "delayed 300");
  BOOST_TEST(ask("192.0.2.0", "6@x") == "pass");
  auto never = question("192.0.2.0", "7@x");
  never.passes = 0;
  BOOST_TEST(ask(never) == "wait 300");
  pass(seconds(86401));
  BOOST_TEST(ask("192.0.2.0", "8@x") == "wait 300");
}

BOOST_AUTO_TEST_CASE(all_of_it_survives_as_records_and_damaged_records_are_nothing) {
  ask("192.0.2.0");
  for (const std::string sender : {"1@x", "2@x", "3@x"}) ask("198.51.100.0", sender);
  pass(seconds(300));
  for (const std::string sender : {"1@x", "2@x", "3@x"}) ask("198.51.100.0", sender);
  Greylist later = copy();
  BOOST_TEST(later.ask(question("192.0.2.0"), clock.wall_now()).delayed == 300u);
  BOOST_TEST(later.ask(question("198.51.100.0", "new@x"), clock.wall_now()).wait == 0u);
  for (const std::string bad : {"", "g", "gxxxxxxxxxxxxxxxx", "cxxxxxxxxxxxxxxxx", "zxxxxxxxxxxxxxxxx"})
    later.take(bad, "\xff\xff");
  BOOST_TEST(!list.changed());
}

BOOST_AUTO_TEST_CASE(what_is_stale_is_forgotten_in_the_background_and_in_the_file) {
  for (int i = 0; i < 100; ++i) ask("10.0." + std::to_string(i) + ".0");
  ask("192.0.2.0");
  pass(seconds(300));
  ask("192.0.2.0");
  (void)list.take_changes(SIZE_MAX);
  pass(seconds(4000));
  for (int i = 0; i < 100; ++i) list.collect_some(clock.wall_now(), 50);
  BOOST_TEST(list.triplets() == 1u);
  BOOST_TEST(list.clients() == 1u);
  std::size_t removed = 0;
  for (const auto& change : list.take_changes(SIZE_MAX)) removed += change.value ? 0 : 1;
  BOOST_TEST(removed == 100u);
  pass(seconds(86400));
  for (int i = 0; i < 100; ++i) list.collect_some(clock.wall_now(), 50);
  BOOST_TEST(list.triplets() == 0u);
  BOOST_TEST(list.clients() == 0u);
}

BOOST_AUTO_TEST_CASE(ten_thousand_clients_that_never_come_back_do_not_push_out_what_has_passed) {
  list.limit(5000, 2000);
  for (int i = 0; i < 100; ++i) ask("good", std::to_string(i) + "@x");
  pass(seconds(300));
  auto counted = question("good");
  for (int i = 0; i < 100; ++i) {
    counted.sender = std::to_string(i) + "@x";
    counted.passes = 0;  // so that the triplets themselves are asked
    BOOST_TEST(ask(counted) == "delayed 300");
  }
  for (int i = 0; i < 10'000; ++i)
    for (int j = 0; j < 5; ++j) ask("bad " + std::to_string(i), std::to_string(j) + "@x");
  BOOST_TEST(list.triplets() <= 5000u);
  BOOST_TEST(list.clients() <= 2001u);
  for (int i = 0; i < 100; ++i) {
    counted.sender = std::to_string(i) + "@x";
    BOOST_TEST(ask(counted) == "pass");
  }
  BOOST_TEST(ask("good", "new@x") == "pass");
}

BOOST_AUTO_TEST_CASE(one_network_has_a_share_of_the_table_only) {
  for (std::size_t i = 0; i < Greylist::kMostPending + 500; ++i)
    BOOST_TEST_REQUIRE(ask("192.0.2.0", std::to_string(i) + "@x") == "wait 300");
  BOOST_TEST(list.triplets() == Greylist::kMostPending);
  BOOST_TEST(ask("198.51.100.0") == "wait 300");
  BOOST_TEST(list.triplets() == Greylist::kMostPending + 1);
  pass(seconds(300));
  for (int i = 0; i < 3; ++i) BOOST_TEST(ask("192.0.2.0", std::to_string(i) + "@x") == "delayed 300");
  BOOST_TEST(ask("192.0.2.0", "more@x") == "pass");  // it is known now
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_makes_nobody_wait_longer_than_the_delay) {
  ask("192.0.2.0");
  clock.step_wall(-std::chrono::hours(10));
  BOOST_TEST(ask("192.0.2.0") == "wait 300");
}

BOOST_AUTO_TEST_CASE(who_was_put_off_by_one_host_passes_at_another) {
  share();
  BOOST_TEST(ask("192.0.2.0") == "wait 300");
  pass(seconds(100));
  BOOST_TEST(ask_other(question("192.0.2.0")) == "wait 200");
  pass(seconds(250));
  BOOST_TEST(ask_other(question("192.0.2.0")) == "delayed 350");
  BOOST_TEST(ask("192.0.2.0") == "pass");
  BOOST_TEST(list.knows(question("192.0.2.0"), clock.wall_now()));
  BOOST_TEST(!list.knows(question("192.0.2.0", "new@x"), clock.wall_now()));
}

BOOST_AUTO_TEST_CASE(a_client_that_came_back_often_enough_to_all_hosts_is_known_to_each) {
  share();
  for (const std::string sender : {"1@x", "2@x", "3@x"}) ask("192.0.2.0", sender);
  pass(seconds(300));
  BOOST_TEST(ask("192.0.2.0", "1@x") == "delayed 300");
  BOOST_TEST(ask_other(question("192.0.2.0", "2@x")) == "delayed 300");
  BOOST_TEST(ask("192.0.2.0", "3@x") == "delayed 300");
  BOOST_TEST(ask_other(question("192.0.2.0", "new@x")) == "pass");
}

BOOST_AUTO_TEST_CASE(what_another_host_says_takes_no_pass_away_and_nothing_stale_or_damaged_counts) {
  share();
  ask("192.0.2.0");
  const auto first_try = list.take_told();
  pass(seconds(300));
  ask("192.0.2.0");
  for (const auto& told : first_try) list.learn(told.key, told.value, clock.wall_now());
  BOOST_TEST(ask("192.0.2.0") == "pass");
  pass(seconds(4000));
  for (const auto& told : first_try) other.learn(told.key, told.value, clock.wall_now());
  BOOST_TEST(other.triplets() == 0u);
  for (const std::string bad : {"", "g", "gxxxxxxxxxxxxxxxx", "cxxxxxxxxxxxxxxxx", "zxxxxxxxxxxxxxxxx"})
    other.learn(bad, "\xff\xff", clock.wall_now());
  BOOST_TEST(other.triplets() + other.clients() == 0u);
}

BOOST_AUTO_TEST_CASE(others_hear_of_first_tries_passes_and_now_and_then_of_use) {
  ask("192.0.2.0");
  BOOST_TEST(list.take_told().empty());  // there are none
  share();
  ask("192.0.2.0", "1@x");
  BOOST_TEST(list.take_told().size() == 1u);
  ask("192.0.2.0", "1@x");
  BOOST_TEST(list.take_told().empty());
  pass(seconds(300));
  ask("192.0.2.0", "1@x");
  BOOST_TEST(list.take_told().size() == 2u);  // the client, too
  pass(seconds(100));
  ask("192.0.2.0", "1@x");
  BOOST_TEST(list.take_told().empty());
  pass(seconds(86400 / 16));
  ask("192.0.2.0", "1@x");
  BOOST_TEST(list.take_told().size() == 1u);
}

BOOST_AUTO_TEST_CASE(learning_keeps_to_the_bounds) {
  share();
  other.limit(10, 5);
  for (int i = 0; i < 100; ++i) ask_other(question("10.0." + std::to_string(i) + ".0"));
  for (int i = 0; i < 100; ++i) ask("10.1." + std::to_string(i) + ".0");
  exchange(list, other);
  BOOST_TEST(other.triplets() <= 10u);
  BOOST_TEST(other.clients() <= 5u);
}

BOOST_AUTO_TEST_SUITE_END()
