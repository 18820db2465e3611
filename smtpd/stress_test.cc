// A service with all its places taken: which settings hold, and for which sessions.
#include "smtpd/stress.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

namespace {

/// A service with two places. Others take them, not the session of the rig.
struct Busy : Rig {
  explicit Busy(const std::string& main_cf = {}, Stress::Marks marks = {.begin = 2, .end = 1, .rest = seconds(10)})
      : Rig("smtpd_peername_lookup = no\n" + main_cf) {
    BOOST_TEST_REQUIRE(problem == "");
    server.stress = std::make_unique<Stress>(loop, marks, [this](bool on, std::size_t taken) {
      told += (on ? "begins at " : "ends at ") + std::to_string(taken) + ";";
    });
  }
  ~Busy() { hang_up(); }
  void take() { others.emplace_back(*server.stress); }
  void give_back() {
    others.pop_back();
    loop.run_once();
  }
  std::string after(std::chrono::nanoseconds time) {
    clock.advance(time);
    return settle();
  }
  std::string told;
  std::vector<Stress::Taken> others;
};

/// The configuration with stress given by -o.
config::Config with_option(const config::Config& config, const char* value) {
  return config.with({{.name = "stress", .value = value}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stress)

BOOST_AUTO_TEST_CASE(begins_when_all_places_are_taken_and_ends_when_some_were_free_for_a_while) {
  Busy rig({}, {.begin = 4, .end = 2, .rest = seconds(10)});
  for (int i = 0; i < 5; ++i) rig.take();
  BOOST_TEST(rig.told == "begins at 4;");
  rig.give_back();
  rig.give_back();
  (void)rig.after(seconds(60));
  BOOST_TEST(rig.server.stress->on());  // three are taken
  rig.give_back();
  (void)rig.after(seconds(9));
  BOOST_TEST(rig.server.stress->on());
  rig.take();  // the ten seconds begin again
  rig.give_back();
  (void)rig.after(seconds(9));
  BOOST_TEST(rig.told == "begins at 4;");
  (void)rig.after(seconds(2));
  BOOST_TEST(!rig.server.stress->on());
  BOOST_TEST(rig.told == "begins at 4;ends at 2;");
  rig.take();
  BOOST_TEST(!rig.server.stress->on());
  rig.take();
  BOOST_TEST(rig.told == "begins at 4;ends at 2;begins at 4;");
}

BOOST_AUTO_TEST_CASE(marks_follow_the_limits) {
  BOOST_TEST(Stress::sessions(100).begin == 100U);
  BOOST_TEST(Stress::sessions(100).end == 75U);
  BOOST_TEST(Stress::sessions(2).end == 1U);
  BOOST_TEST(Stress::sessions(1).begin == SIZE_MAX);
  BOOST_TEST(Stress::sessions(SIZE_MAX).begin == SIZE_MAX);
  BOOST_TEST(Stress::tests(100).begin == 90U);
  BOOST_TEST(Stress::tests(100).end == 70U);
}

BOOST_AUTO_TEST_CASE(defaults_under_stress_are_postfix_s) {
  Busy rig;
  const config::Settings &calm = rig.policy->settings, &strained = rig.policy->under_stress->settings;
  BOOST_TEST((calm.smtpd_timeout == seconds(300) && strained.smtpd_timeout == seconds(10)));
  BOOST_TEST((calm.smtpd_starttls_timeout == seconds(300) && strained.smtpd_starttls_timeout == seconds(10)));
  BOOST_TEST((calm.smtpd_hard_error_limit == 20 && strained.smtpd_hard_error_limit == 1));
  BOOST_TEST((calm.smtpd_junk_command_limit == 100 && strained.smtpd_junk_command_limit == 1));
  BOOST_TEST((calm.address_verify_poll_count == 3 && strained.address_verify_poll_count == 1));
  BOOST_TEST((calm.postscreen_greet_wait == seconds(6) && strained.postscreen_greet_wait == seconds(2)));
  BOOST_TEST(
      (calm.postscreen_command_time_limit == seconds(300) && strained.postscreen_command_time_limit == seconds(10)));
  BOOST_TEST((calm.stress.empty() && strained.stress == "yes"));
  BOOST_TEST(rig.policy->under_stress->under_stress == nullptr);
}

BOOST_AUTO_TEST_CASE(a_session_that_waits_gets_the_shorter_time_from_when_stress_begins) {
  Busy rig;
  BOOST_TEST(rig.connect().starts_with("220 "));
  BOOST_TEST(rig.after(seconds(100)) == "");
  rig.take();
  BOOST_TEST(rig.after(seconds(0)) == "");
  BOOST_TEST(rig.server.stress->on());
  BOOST_TEST(rig.after(seconds(9)) == "");
  BOOST_TEST(rig.after(seconds(1)).starts_with("421 4.4.2 "));
  BOOST_TEST(rig.closed());
}

BOOST_AUTO_TEST_CASE(a_session_has_its_usual_time_again_when_stress_is_over) {
  Busy rig;
  (void)rig.connect();
  rig.take();
  (void)rig.after(seconds(2));
  rig.give_back();  // stress ends 10 s later
  (void)rig.after(seconds(3));
  BOOST_TEST(rig.say("NOOP\r\n").starts_with("250 "));  // this wait would end after 10 s
  BOOST_TEST(rig.after(seconds(8)) == "");
  BOOST_TEST(!rig.server.stress->on());
  BOOST_TEST(rig.after(seconds(290)) == "");
  BOOST_TEST(rig.after(seconds(3)).starts_with("421 4.4.2 "));
}

BOOST_AUTO_TEST_CASE(one_error_is_enough_under_stress) {
  Busy rig;
  (void)rig.connect();
  BOOST_TEST(rig.say("NONSENSE\r\n").starts_with("5"));
  BOOST_TEST(rig.say("NOOP\r\n").starts_with("250 "));
  rig.take();
  BOOST_TEST(rig.settle().starts_with("421 4.7.0 "));
  BOOST_TEST(rig.closed());
}

BOOST_AUTO_TEST_CASE(lists_and_texts_of_stress_hold_for_the_next_message_not_for_one_under_way) {
  Busy rig(
      "smtpd_banner = [$stress]\nsmtpd_recipient_restrictions = reject_unauth_destination ${stress?{reject}:{permit}}\n"
      "smtpd_hard_error_limit = 20\n");
  BOOST_TEST(rig.connect() == "220 []\r\n");
  (void)rig.say("EHLO x\r\n");
  (void)rig.say("MAIL FROM:<a@x.example>\r\n");
  rig.take();
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n").starts_with("250 "));
  (void)rig.say("RSET\r\n");
  BOOST_TEST(rig.say("MAIL FROM:<a@x.example>\r\nRCPT TO:<user@example.org>\r\n").contains("\r\n554 "));
  BOOST_TEST(rig.connect() == "220 [yes]\r\n");
}

BOOST_AUTO_TEST_CASE(a_value_that_is_given_is_honoured) {
  Busy rig("smtpd_banner = [$stress]\n");
  for (const char* value : {"", "yes"}) {
    const auto given = Policy::open_policy(with_option(*rig.config, value), rig.resolver);
    BOOST_TEST_REQUIRE(given.has_value());
    BOOST_TEST((*given)->stress_given);
    BOOST_TEST((*given)->settings.smtpd_banner == "[" + std::string(value) + "]");
  }
  BOOST_TEST(!rig.policy->stress_given);
  Busy always("smtpd_banner = [$stress]\nstress = yes\n");
  BOOST_TEST(!always.policy->stress_given);
  BOOST_TEST(always.connect() == "220 [yes]\r\n");
}

BOOST_AUTO_TEST_CASE(values_that_are_wrong_under_stress_only_are_refused_at_the_start) {
  BOOST_TEST(Rig("smtpd_timeout = ${stress?{soon}:{300s}}\n").problem.contains("smtpd_timeout"));
  BOOST_TEST(Rig("smtpd_relay_restrictions =\nsmtpd_recipient_restrictions = ${stress?{permit}:{reject}}\n")
                 .problem.contains("with stress = yes"));
}

BOOST_AUTO_TEST_CASE(waits_end_when_the_service_stops) {
  for (const bool under : {false, true}) {
    Busy rig;
    (void)rig.connect();
    if (under) rig.take();
    BOOST_TEST(rig.settle() == "");
    rig.server.stop();
    BOOST_TEST(rig.settle().starts_with("421 4.3.2 "));
    BOOST_TEST(rig.closed());
  }
}

BOOST_AUTO_TEST_CASE(many_clients_under_test_shorten_the_tests) {
  Busy rig({}, {});
  auto screening = Screening::open(*rig.config, *rig.policy);
  BOOST_TEST_REQUIRE(screening.has_value());
  rig.server.screener = std::make_shared<Screener>(rig.loop, *screening, 100);
  rig.server.screener->stress =
      std::make_unique<Stress>(rig.loop, Stress::Marks{.begin = 2, .end = 1, .rest = {}}, [](bool, std::size_t) {});
  std::optional<Screener::Seat> other(std::in_place, *rig.server.screener, "198.51.100.1");
  BOOST_TEST(rig.connect() == "220-mx.example.org ESMTP Penstock\r\n");
  BOOST_TEST(rig.server.screener->stress->on());
  BOOST_TEST(rig.after(seconds(2)) == "220 mx.example.org ESMTP Penstock\r\n");
  BOOST_TEST(!rig.server.screener->stress->on());  // it is served now
  other.reset();
  rig.hang_up();
  rig.server.screener->stop();
}

BOOST_AUTO_TEST_SUITE_END()
