/// When a round is over, and what its results leave in the message.
#include "qmgr/rounds.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

BOOST_FIXTURE_TEST_SUITE(rounds, RoundsFixture)

BOOST_AUTO_TEST_CASE(a_round_is_over_when_every_result_is_there_and_durable) {
  Active& m = work_on(envelope("A1", {"a@x.example", "b@x.example"}));
  rounds.deferred(m, {0}, later());
  BOOST_TEST(rounds.next_over() == nullptr);
  rounds.done(m, {1}, ok());
  rounds.look_at(m.number);
  BOOST_TEST(rounds.next_over() == nullptr);  // it is not durable yet
  settle_results();
  BOOST_TEST(rounds.next_over() == &m);
  BOOST_TEST(rounds.next_over() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_message_that_waits_for_its_report_is_not_over) {
  Active& m = work_on(envelope("A1"));
  rounds.deferred(m, {0}, later());
  m.reporting = true;
  BOOST_TEST(rounds.next_over() == nullptr);
  m.reporting = false;
  rounds.look_at(m.number);
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(who_is_deferred_stays_and_who_is_done_goes) {
  Active& m = work_on(envelope("A1", {"a@x.example", "b@x.example", "c@x.example"}));
  rounds.deferred(m, {0}, later());
  rounds.done(m, {1}, ok());
  rounds.done(m, {2}, failed());
  BOOST_TEST(m.remaining.contains(0));
  BOOST_TEST(!m.remaining.contains(1));
  BOOST_TEST(!m.remaining.contains(2));
  BOOST_TEST(m.notes.at(0).status.text == "450 later");
  BOOST_TEST(!m.notes.contains(1));
  BOOST_TEST(m.notes.at(2).owed == mail::notify::kFailure);
}

BOOST_AUTO_TEST_CASE(a_probe_has_one_try) {
  mail::Envelope e = envelope("A1");
  e.purpose = mail::Purpose::probe;
  Active& m = work_on(std::move(e));
  rounds.deferred(m, {0}, later());
  BOOST_TEST(m.remaining.empty());
}

BOOST_AUTO_TEST_CASE(soft_bounce_turns_a_refusal_into_a_deferral) {
  Active& m = work_on(envelope("A1"));
  mail::DeliveryStatus status = failed();
  rounds.soften(m, status, false);
  BOOST_TEST((status == failed()));
  rounds.soften(m, status, true);
  BOOST_TEST((status.action == mail::Action::deferred));
  BOOST_TEST(status.dsn == "4.1.1");
}

BOOST_AUTO_TEST_CASE(a_message_that_is_too_old_goes_back_with_its_last_reason) {
  Active& m = work_on(envelope("A1"));
  rounds.deferred(m, {0}, later());
  BOOST_TEST(!rounds.expire(m));
  clock.advance(around.options.lifetime);
  BOOST_TEST(rounds.expire(m));
  BOOST_TEST(m.remaining.empty());
  BOOST_TEST((m.notes.at(0).status.action == mail::Action::failed));
  BOOST_TEST(m.notes.at(0).status.text == "450 later");
}

BOOST_AUTO_TEST_CASE(a_message_with_many_recipients_expires_in_portions) {
  const std::size_t many = 2 * Rounds::kExpiredTogether + 500;
  Active& m = work_on(envelope("A1", std::vector<std::string>(many, "r@x.example")));
  Ordinals all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(static_cast<std::uint32_t>(i));
  rounds.deferred(m, all, later());
  clock.advance(around.options.lifetime);
  for (const std::size_t left : {many - Rounds::kExpiredTogether, std::size_t{500}, std::size_t{0}}) {
    BOOST_TEST(rounds.expire(m));
    BOOST_TEST(m.remaining.count() == left);
    while (rounds.next_over() != nullptr) {
    }
    settle_results();
    BOOST_TEST(rounds.next_over() == &m);  // it comes back, for the others or for its notice
  }
  BOOST_TEST(!rounds.expire(m));
  BOOST_TEST(m.notes.size() == many);
}

BOOST_AUTO_TEST_CASE(an_order_takes_back_who_waits_and_removal_is_the_last_word) {
  Active& m = work_on(envelope("A1"), {0});
  rounds.end_by_order(m, Active::Order::remove);
  BOOST_TEST(m.outstanding == 0U);
  rounds.end_by_order(m, Active::Order::hold);
  BOOST_TEST((m.order == Active::Order::remove));
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(a_lost_message_fails_the_orders_that_wait_for_it) {
  Active& m = work_on(envelope("A1"), {0});
  std::optional<bool> obeyed;
  rounds.end_by_order(m, Active::Order::hold, [&](bool o) { obeyed = o; });
  rounds.lose(m);
  BOOST_TEST((obeyed == std::optional(false)));
  BOOST_TEST(active.size() == 0U);
  BOOST_TEST(rounds.next_over() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
