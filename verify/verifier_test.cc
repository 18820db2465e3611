#include "verify/verifier.h"
#include "lib/testing/suite.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using mail::Action;
using pen::verify::Cache;
using pen::verify::CacheRules;
using pen::verify::outcome_of;
using pen::verify::State;
using pen::verify::Verifier;

BOOST_AUTO_TEST_SUITE(verify_verifier)

namespace {

struct Fixture {
  WallTime now{seconds(1'000'000'000)};
  Verifier verifier{CacheRules{}, 3};
  std::uint64_t next = 1;

  Verifier::Asked ask(const std::string& address, verify::ClientNumber client = 1) {
    return verifier.ask(client, next++, address, now);
  }
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(one_probe_of_an_address_is_under_way_and_tells_all_who_wait) {
  const auto first = ask("A@x.example", 1);
  BOOST_TEST(first.probe);
  BOOST_TEST((first.answer.state == State::probing));
  const auto second = ask("a@X.example", 2);
  BOOST_TEST(!second.probe);
  BOOST_TEST((second.answer.state == State::probing));
  const auto told = verifier.ended("a@x.example", State::bad, "550 no", now);
  BOOST_TEST(told.size() == 2U);
  for (const auto& t : told) {
    BOOST_TEST((t.answer.state == State::bad));
    BOOST_TEST(t.answer.text == "550 no");
    BOOST_TEST(t.answer.request == (t.client == 1 ? first.answer.request : second.answer.request));
  }
  const auto third = ask("a@x.example");
  BOOST_TEST(!third.probe);
  BOOST_TEST((third.answer.state == State::bad));
}

BOOST_AUTO_TEST_CASE(what_holds_is_answered_at_once_while_it_is_refreshed_once) {
  (void)ask("a@x.example");
  (void)verifier.ended("a@x.example", State::good, "250 ok", now);
  now += seconds(8 * 86400);
  const auto refreshing = ask("a@x.example");
  BOOST_TEST((refreshing.answer.state == State::good));
  BOOST_TEST(refreshing.probe);
  BOOST_TEST(!ask("a@x.example").probe);
  BOOST_TEST(verifier.ended("a@x.example", State::good, "250 ok", now).empty());
  BOOST_TEST(!ask("a@x.example").probe);
}

BOOST_AUTO_TEST_CASE(beyond_the_limit_unknown_addresses_are_put_off_and_nothing_is_remembered) {
  for (int i = 0; i < 3; ++i) BOOST_TEST(ask(std::to_string(i) + "@x").probe);
  for (int i = 3; i < 100'003; ++i) {
    const auto more = ask(std::to_string(i) + "@x");
    BOOST_REQUIRE((more.answer.state == State::deferred && !more.probe));
  }
  BOOST_TEST(verifier.probes() == 3U);
  BOOST_TEST(verifier.cache().size() == 0U);
  BOOST_TEST((ask("0@x").answer.state == State::probing));
  (void)verifier.ended("0@x", State::good, "", now);
  BOOST_TEST(ask("3@x").probe);
}

BOOST_AUTO_TEST_CASE(a_probe_without_a_result_is_given_up_and_may_begin_again) {
  (void)ask("a@x");
  now += Cache::kProbeTime;
  BOOST_TEST(verifier.tick(now).empty());
  now += seconds(1);
  const auto told = verifier.tick(now);
  BOOST_TEST(told.size() == 1U);
  BOOST_TEST((told.front().answer.state == State::deferred));
  BOOST_TEST(ask("a@x").probe);
  now -= seconds(100'000);  // the clock is set back
  BOOST_TEST(verifier.tick(now).empty());
  now += Cache::kProbeTime + seconds(1);
  BOOST_TEST(verifier.tick(now).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_probe_that_cannot_be_sent_is_answered_and_forgotten) {
  (void)ask("a@x");
  const auto told = verifier.not_sent("a@x", "no queue");
  BOOST_TEST(told.size() == 1U);
  BOOST_TEST(told.front().answer.text == "no queue");
  BOOST_TEST(ask("a@x").probe);
}

BOOST_AUTO_TEST_CASE(a_result_of_a_probe_of_the_process_before_is_kept) {
  BOOST_TEST(verifier.ended("a@x", State::good, "ok", now).empty());
  BOOST_TEST((ask("a@x").answer.state == State::good));
}

BOOST_AUTO_TEST_CASE(who_has_gone_is_told_nothing) {
  (void)ask("a@x", 1);
  (void)ask("a@x", 2);
  verifier.gone(1);
  const auto told = verifier.ended("a@x", State::good, "ok", now);
  BOOST_TEST(told.size() == 1U);
  BOOST_TEST(told.front().client == 2U);
}

BOOST_AUTO_TEST_CASE(what_another_host_knows_ends_the_probe_before_it_is_sent) {
  Cache other{CacheRules{}};
  other.result("a@x", State::good, "ok there", now);
  (void)ask("a@x");
  std::vector<Verifier::Answer> tell;
  BOOST_TEST(!verifier.answered_elsewhere("a@x", now, tell));
  verifier.cache().take("a@x", *other.record("a@x"), now, false);
  BOOST_TEST(verifier.answered_elsewhere("a@x", now, tell));
  BOOST_TEST(tell.size() == 1U);
  BOOST_TEST(tell.front().answer.text == "ok there");
  BOOST_TEST(verifier.probes() == 0U);
}

BOOST_AUTO_TEST_CASE(of_several_recipients_a_good_one_counts_then_one_that_was_put_off) {
  const auto made = [](std::initializer_list<Action> actions) {
    std::vector<mail::DeliveryStatus> out;
    for (const Action a : actions) out.push_back(mail::make_status(a, "2.0.0", std::to_string(static_cast<int>(a))));
    return outcome_of(out).state;
  };
  BOOST_TEST((made({Action::failed, Action::delivered}) == State::good));
  BOOST_TEST((made({Action::failed, Action::relayed}) == State::good));
  BOOST_TEST((made({Action::failed, Action::transferred}) == State::good));
  BOOST_TEST((made({Action::deferred, Action::failed}) == State::deferred));
  BOOST_TEST((made({Action::failed, Action::failed}) == State::bad));
  BOOST_TEST((made({Action::expanded, Action::failed}) == State::bad));
  BOOST_TEST((made({}) == State::deferred));
}

BOOST_AUTO_TEST_SUITE_END()
