// Quotas by themselves: windows, several users at once, and what a flood of senders costs.
#include "anvil/quotas.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/manual_clock.h"
#include "lib/testing/suite.h"

using namespace pen;
using pen::anvil::Quotas;
using Limit = pen::ipc::sender_memory::QuotaLimit;

BOOST_AUTO_TEST_SUITE(quotas_core)

namespace {

struct Fixture {
  static Quotas::Question question(std::uint32_t recipients = 1) {
    Quotas::Question q;
    q.request = 7;
    q.messages = 1;
    q.recipients = recipients;
    q.users.push_back({.name = "login:ada", .messages_per_hour = 3, .recipients_per_day = 10});
    return q;
  }
  /// "ok", or the limit and the time to wait.
  std::string ask(const Quotas::Question& q) {
    const auto answer = quotas.ask(q, clock.wall_now());
    BOOST_TEST(answer.request == q.request);
    if (answer.exceeded == Limit::none) return "ok";
    return std::to_string(answer.user) + ": " + std::to_string(static_cast<int>(answer.exceeded)) + " wait " +
           std::to_string(answer.wait);
  }
  pen::testing::ManualClock clock;
  Quotas quotas;
};
const std::string kHourFull = "0: 1 wait ", kDayFull = "0: 4 wait ";

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(an_hour_and_a_day_begin_with_the_first_message_and_end_with_nothing) {
  BOOST_TEST(ask(question()) == "ok");
  clock.advance(seconds(600));
  for (int i = 0; i < 2; ++i) BOOST_TEST(ask(question()) == "ok");
  BOOST_TEST(ask(question()) == kHourFull + "3000");
  clock.advance(seconds(3000));
  BOOST_TEST(ask(question(5)) == "ok");
  BOOST_TEST(ask(question(3)) == kDayFull + "82800");  // 8 of 10 are used
  BOOST_TEST(ask(question(2)) == "ok");
  BOOST_TEST(ask(question(1)) == kDayFull + "82800");
  clock.advance(seconds(82800));
  BOOST_TEST(ask(question(10)) == "ok");
}

BOOST_AUTO_TEST_CASE(what_other_hosts_counted_counts_here_if_it_is_more) {
  BOOST_TEST(ask(question(2)) == "ok");
  quotas.learn("login:ada", {seconds(600), 3, 3}, {seconds(5000), 4, 9}, clock.wall_now());
  BOOST_TEST(ask(question(2)) == kDayFull + "81400");
  BOOST_TEST(ask(question(1)) == kHourFull + "3000");
  quotas.learn("login:ada", {seconds(10), 1, 1}, {seconds(10), 1, 1}, clock.wall_now());  // less than is known here
  BOOST_TEST(ask(question(1)) == kHourFull + "3000");
  quotas.learn("login:bob", {seconds(3600), 3, 3}, {seconds(86400), 9, 9}, clock.wall_now());  // windows that are over
  const auto users = quotas.users();
  quotas.learn("login:eve", {}, {}, clock.wall_now());
  BOOST_TEST(quotas.users() == users);
  auto of_bob = question(10);
  of_bob.users[0].name = "login:bob";
  BOOST_TEST(ask(of_bob) == "ok");
}

BOOST_AUTO_TEST_CASE(looking_counts_nothing) {
  auto look = question();
  look.look = true;
  for (int i = 0; i < 10; ++i) BOOST_TEST(ask(look) == "ok");
  look.recipients = 11;
  BOOST_TEST(ask(look).starts_with(kDayFull));
  BOOST_TEST(quotas.users() == 0u);
}

BOOST_AUTO_TEST_CASE(a_message_counts_for_all_its_users_or_for_none) {
  auto both = question();
  both.users.push_back({.name = "sender:a@x", .messages_per_day = 1});
  BOOST_TEST(ask(both) == "ok");
  BOOST_TEST(ask(both) == "1: 2 wait 86400");
  auto other = question();
  for (int i = 0; i < 2; ++i) BOOST_TEST(ask(other) == "ok");
  BOOST_TEST(ask(other).starts_with(kHourFull));
}

BOOST_AUTO_TEST_CASE(counts_survive_as_records_and_go_when_their_day_is_over) {
  for (int i = 0; i < 3; ++i) ask(question());
  Quotas later;
  for (const auto& change : quotas.take_changes(SIZE_MAX)) later.take(change.key, change.value.value());
  later.take("q", "\xff");
  later.take("gxxx", "");
  BOOST_TEST((later.ask(question(), clock.wall_now()).exceeded == Limit::messages_per_hour));
  BOOST_TEST(later.users() == 1u);
  clock.advance(std::chrono::hours(25));
  for (int i = 0; i < 10; ++i) later.collect_some(clock.wall_now(), 10);
  BOOST_TEST(later.users() == 0u);
  for (const auto& change : later.take_changes(SIZE_MAX)) BOOST_TEST(!change.value.has_value());
}

BOOST_AUTO_TEST_CASE(strangers_who_invent_senders_do_not_push_out_who_sends_much) {
  quotas.limit(1000);
  for (int i = 0; i < 3; ++i) ask(question(2));
  for (int i = 0; i < 10'000; ++i) {
    auto q = question();
    q.users[0] = {.name = "sender:" + std::to_string(i), .messages_per_day = 5};
    BOOST_TEST_REQUIRE(ask(q) == "ok");
  }
  BOOST_TEST(quotas.users() == 1000u);
  BOOST_TEST(ask(question()).starts_with(kHourFull));
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_begins_the_windows_anew) {
  for (int i = 0; i < 3; ++i) ask(question());
  clock.step_wall(-std::chrono::hours(48));
  BOOST_TEST(ask(question()) == "ok");
}

BOOST_AUTO_TEST_SUITE_END()
