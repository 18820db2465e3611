/// What each order makes of a message: while it is being worked on, and where it lies.
#include "qmgr/orders.h"

#include "lib/testing/suite.h"
#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(orders)

namespace {

using ipc::queue::Outcome;
using ipc::queue::Verb;

struct Tool : AdmissionFixture {
  Orders orders{around, active, acknowledgements, rounds, admission, runners};
  std::optional<Outcome> outcome;

  void order(const std::string& id, Verb verb) {
    outcome.reset();
    orders.give(where(id), verb, [this](Outcome o) { outcome = o; });
  }
  bool ended(Outcome with) const { return outcome == std::optional(with); }
  /// Its round ends, and the order with it.
  void end_round() {
    Active* m = rounds.next_over();
    BOOST_REQUIRE(m != nullptr);
    BOOST_REQUIRE((m->order != Active::Order::none));
    orders.carry_out(*m);
  }
  void deferred(const std::string& id) {
    admission.admit(begun(envelope(id)));
    run();
    defer(id, seconds(4000));
    run();
  }
  queue_log::LogId log_of(const std::string& id) { return where(id).place.log; }
};

}  // namespace

PEN_FIXTURE(Tool)

BOOST_AUTO_TEST_CASE(an_order_for_a_message_in_work_is_carried_out_at_the_end_of_its_round) {
  admission.admit(begun(envelope("A1")));
  order("A1", Verb::hold);
  BOOST_TEST(!outcome);
  end_round();
  BOOST_TEST(!outcome);  // not durable yet
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(active.size() == 0U);
  BOOST_TEST(log_of("A1") == queue_log::kHold);
}

BOOST_AUTO_TEST_CASE(an_order_that_is_none_changes_nothing) {
  admission.admit(begun(envelope("A1")));
  order("A1", static_cast<Verb>(200));
  BOOST_TEST(ended(Outcome::failed));
  BOOST_TEST(active.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_removed_message_is_gone_wherever_it_was) {
  Active& m = admission.admit(begun(envelope("A1")));
  m.spool_file = 3;
  order("A1", Verb::remove);
  end_round();
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(orders.removed() == 1U);
  BOOST_TEST((ports.released == std::vector<std::uint64_t>{3}));
  deferred("A2");
  order("A2", Verb::remove);
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(!stored_anywhere("A1"));
  BOOST_TEST(!stored_anywhere("A2"));
}

BOOST_AUTO_TEST_CASE(a_message_at_rest_is_held_and_released) {
  deferred("A1");
  order("A1", Verb::hold);
  BOOST_TEST(!outcome);
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(log_of("A1") == queue_log::kHold);
  order("A1", Verb::hold);  // it is already
  BOOST_TEST(ended(Outcome::ok));
  order("A1", Verb::release);
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(log_of("A1") == queue_log::kJournal);
  BOOST_TEST(runners.any_due());
}

BOOST_AUTO_TEST_CASE(an_expired_message_on_hold_stays_there_until_it_is_released) {
  deferred("A1");
  order("A1", Verb::hold);
  settle_results();
  order("A1", Verb::expire);
  settle_results();
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(log_of("A1") == queue_log::kHold);
  order("A1", Verb::expire_release);
  settle_results();
  BOOST_TEST(log_of("A1") == queue_log::kJournal);
  run();
  BOOST_REQUIRE(active.find("A1") != nullptr);
  BOOST_TEST(active.find("A1")->forced_expire);
}

BOOST_AUTO_TEST_CASE(a_flushed_message_is_worked_on_at_once) {
  deferred("A1");
  order("A1", Verb::flush);
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(in_work() == "A1 ");
  BOOST_TEST(scheduler.deferral_overridden(active.find("A1")->number));
  order("A1", Verb::flush);  // it is being tried
  BOOST_TEST(ended(Outcome::ok));
}

BOOST_AUTO_TEST_CASE(a_flush_waits_for_room) {
  deferred("A1");
  admission.admit(begun(envelope("A2")));
  around.options.active_messages = 1;
  order("A1", Verb::flush);
  BOOST_TEST(!outcome);
  BOOST_TEST(orders.any_waiting());
  around.options.active_messages = 2;
  BOOST_TEST(orders.run_waiting());
  BOOST_TEST(ended(Outcome::ok));
  BOOST_TEST(!orders.run_waiting());
}

BOOST_AUTO_TEST_CASE(an_order_for_a_message_that_is_gone_says_so) {
  deferred("A1");
  const auto place = where("A1");
  order("A1", Verb::remove);
  settle_results();
  std::optional<Outcome> second;
  orders.give(place, Verb::hold, [&](Outcome o) { second = o; });
  for (int i = 0; i < 100 && !second; ++i) {
    settle_results();
    orders.commit_came();
  }
  BOOST_REQUIRE(second.has_value());
  BOOST_TEST((*second != Outcome::ok));
}

BOOST_AUTO_TEST_CASE(an_order_for_many_lasts_as_long_as_its_guard) {
  {
    const Orders::Bulk bulk(orders);
    BOOST_TEST(orders.bulk());
  }
  BOOST_TEST(!orders.bulk());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
