/// Which messages of the queue log come into the active set, when, and in what order.
#include "qmgr/runners.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

BOOST_FIXTURE_TEST_SUITE(runners_of_logs, AdmissionFixture)

BOOST_AUTO_TEST_CASE(what_is_in_the_journal_comes_at_once) {
  run();
  stored(envelope("A1"));
  BOOST_TEST(!runners.any_due());
  runners.wake(queue_log::kJournal);
  BOOST_TEST(runners.any_due());
  run();
  BOOST_TEST(in_work() == "A1 ");
  BOOST_TEST(!runners.any_due());
}

BOOST_AUTO_TEST_CASE(a_deferred_message_comes_back_when_its_time_has_come) {
  admission.admit(begun(envelope("A1")));
  run();
  defer("A1", seconds(300));
  run();
  BOOST_TEST(in_work().empty());
  BOOST_TEST((runners.wake_at() > clock.now()));
  BOOST_TEST((runners.wake_at() <= clock.now() + seconds(60)));
  clock.advance(seconds(301));
  BOOST_TEST(runners.any_due());
  run();
  BOOST_TEST(in_work() == "A1 ");
}

BOOST_AUTO_TEST_CASE(a_flush_makes_everything_due) {
  admission.admit(begun(envelope("A1")));
  run();
  defer("A1", seconds(4000));
  run();
  clock.advance(seconds(1));
  runners.flush_all();
  run();
  BOOST_TEST(in_work() == "A1 ");
  BOOST_TEST(scheduler.deferral_overridden(active.find("A1")->number));
}

BOOST_AUTO_TEST_CASE(journal_and_retry_logs_take_turns) {
  for (const char* id : {"A1", "A2"}) {
    admission.admit(begun(envelope(id)));
    defer(id, seconds(300));
  }
  run();
  stored(envelope("A3"));
  stored(envelope("A4"));
  runners.wake(queue_log::kJournal);
  clock.advance(seconds(301));
  scheduler.set_time(clock.now(), clock.wall_now());
  // Two come: one of each kind.
  while (active.size() < 2) {
    BOOST_REQUIRE(runners.any_due());
    (void)runners.run_one();
    sync();
    runners.commit_came();
  }
  const bool deferred = active.find("A1") != nullptr || active.find("A2") != nullptr;
  const bool fresh = active.find("A3") != nullptr || active.find("A4") != nullptr;
  BOOST_TEST(deferred);
  BOOST_TEST(fresh);
}

BOOST_AUTO_TEST_CASE(a_log_that_cannot_go_on_is_asked_again_in_its_time) {
  run();
  runners.put_off(queue_log::kJournal, Admission::Begun::no_space);
  BOOST_TEST(!runners.any_due());
  BOOST_TEST((runners.wake_at() == clock.now() + seconds(1)));
  runners.put_off(queue_log::kJournal, Admission::Begun::moving);
  runners.commit_came();
  BOOST_TEST(runners.any_due());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
