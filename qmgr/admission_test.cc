/// Which messages may come into the active set, and in what state.
#include "qmgr/admission.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

using Begun = Admission::Begun;

BOOST_FIXTURE_TEST_SUITE(admission_of_messages, AdmissionFixture)

BOOST_AUTO_TEST_CASE(an_admitted_message_is_with_the_scheduler) {
  Active& m = admission.admit(begun(envelope("A1", {"a@x.example", "b@x.example"})));
  BOOST_TEST(active.find("A1") == &m);
  BOOST_TEST(m.outstanding == 2U);
  BOOST_TEST((scheduler.withdraw(m.number) == Ordinals{0, 1}));
}

BOOST_AUTO_TEST_CASE(a_message_for_the_hold_log_ends_there_at_once) {
  mail::Envelope e = envelope("A1");
  e.hold = true;
  Active& m = admission.admit(begun(std::move(e)));
  BOOST_TEST((m.order == Active::Order::hold));
  BOOST_TEST(m.outstanding == 0U);
  BOOST_TEST(!m.envelope().hold);
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(a_full_active_set_admits_nobody) {
  around.options.active_messages = 1;
  BOOST_TEST(admission.may_admit());
  admission.admit(begun(envelope("A1")));
  BOOST_TEST(!admission.may_admit());
}

BOOST_AUTO_TEST_CASE(a_message_whose_time_has_not_come_waits_in_a_retry_log) {
  mail::Envelope e = envelope("A1");
  e.release = clock.wall_now() + seconds(1000);
  Active& m = admission.admit(begun(std::move(e)));
  BOOST_TEST((m.waits_for == Active::WaitsFor::release));
  BOOST_TEST(rounds.any_to_look_at());
  BOOST_TEST(scheduler.withdraw(m.number).empty());
  clock.advance(seconds(1000));
  mail::Envelope due = envelope("A2");
  due.release = clock.wall_now();
  BOOST_TEST((admission.admit(begun(std::move(due))).waits_for == Active::WaitsFor::nothing));
}

BOOST_AUTO_TEST_CASE(each_answer_of_the_log_says_when_to_try_again) {
  using queue_log::QueueLogError;
  const auto refused = [&](QueueLogError e) { return admission.begun("A1", fail(e, "test")); };
  BOOST_TEST((admission.begun("A1", {}) == Begun::yes));
  BOOST_TEST((refused(QueueLogError::superseded) == Begun::superseded));
  BOOST_TEST((refused(QueueLogError::not_found) == Begun::moving));
  BOOST_TEST((refused(QueueLogError::no_space) == Begun::no_space));
}

BOOST_AUTO_TEST_CASE(a_version_that_cannot_be_read_is_put_on_hold) {
  queue_log::Envelope record;
  record.queue_id = "A1";
  record.recipients = 1;
  record.remaining.add(0);
  record.payload = "no payload of ours";
  const auto appended = log->append(record);
  BOOST_REQUIRE(appended.has_value());
  sync();
  auto stored = log->runners().read(appended->place);
  BOOST_REQUIRE(stored.has_value());
  BOOST_REQUIRE(log->work().start(*stored).has_value());
  BOOST_TEST((admission.read(*std::move(stored)) == nullptr));
  BOOST_TEST((where("A1").place.log == queue_log::kHold));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
