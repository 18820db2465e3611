/// Every event of the manager has the scheduler's time, and is settled.
#include "qmgr/turn.h"

#include "qmgr/manager_fixture.h"
#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

namespace {
struct Routing : PartsFixture {
  Routing() : PartsFixture(10) {}
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(turn, Routing)

BOOST_AUTO_TEST_CASE(the_manager_settles_once_after_an_event_and_those_it_causes) {
  Turns turns(around);
  {
    const Turn event(turns);
    {
      const Turn caused(turns);
    }
    BOOST_TEST(ports.settles == 0);
  }
  BOOST_TEST(ports.settles == 1);
}

BOOST_AUTO_TEST_CASE(a_settle_asks_for_no_other) {
  Turns turns(around);
  {
    const Turn settle(turns, Turn::Then::nothing);
    const Turn caused(turns);
  }
  BOOST_TEST(ports.settles == 0);
}

BOOST_AUTO_TEST_CASE(the_scheduler_has_the_time_of_the_event) {
  Turns turns(around);
  clock.advance(seconds(600));
  const Turn event(turns);
  scheduler.admit(1, {0, 1});
  ipc::route::Resolved route;
  route.transport = "smtp";
  route.nexthop = "x.example";
  route.recipient = "r@x.example";
  ipc::Destination host;
  host.transport = "smtp";
  host.host = "mx.x.example";
  route.levels.push_back({{host}});
  scheduler.routed(1, 0, route);
  // The job waits for the other recipient, from the time of the event on.
  BOOST_TEST((scheduler.next_wake() == clock.now() + Options().forming_time));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(events, Fixture)

BOOST_AUTO_TEST_CASE(each_event_of_the_manager_is_settled) {
  const auto settled = [&](const char* what, auto&& event) {
    const auto before = qmgr->settles_asked;
    event(*qmgr->manager_);
    BOOST_TEST(qmgr->settles_asked == before + 1, what);
  };
  settled("enqueue", [&](Manager&) { qmgr->send("A1", "s@x.example", {"ok@a.example"}); });
  settled("committed", [](Manager& m) { m.committed(); });
  settled("routed", [](Manager& m) {
    ipc::route::Routed answer;
    m.event()->routes.routed(answer);
  });
  settled("router_lost", [](Manager& m) { m.event()->routes.lost(0); });
  settled("look_up", [](Manager& m) { m.event()->routes.look_up("r@x.example", {}, [](ipc::route::Routed*) {}); });
  settled("connection_opened", [](Manager& m) { m.event()->scheduler.opened(99, {}); });
  settled("connection_closed", [](Manager& m) {
    ipc::delivery::ConnectionClosed closed;
    m.event()->jobs.connection_closed(closed);
  });
  settled("job_result", [](Manager& m) {
    ipc::delivery::JobResult result;
    m.event()->jobs.result(result);
  });
  settled("job_survived_death", [](Manager& m) { m.event()->jobs.survived_death(99); });
  settled("transport_up", [](Manager& m) { m.event()->scheduler.transport_up("smtp", true); });
  settled("transport_failed", [](Manager& m) { m.event()->jobs.transport_failed("smtp", "gone"); });
  settled("session_room", [](Manager& m) { m.event()->scheduler.session_room(0); });
  settled("yield_session", [](Manager& m) { m.event()->scheduler.yield_session(0); });
  settled("notified", [](Manager& m) { m.event()->reports.notified({99, true, {}, {}}); });
  settled("bounce_ready", [](Manager& m) { m.event()->reports.ready(); });
  settled("bounce_lost", [](Manager& m) { m.event()->reports.lost(); });
  settled("bounce_unavailable", [](Manager& m) { m.event()->reports.unavailable("gone"); });
  settled("order", [](Manager& m) { m.event()->orders.give({}, ipc::queue::Verb::flush, [](ipc::queue::Outcome) {}); });
  settled("flush_all", [](Manager& m) { m.flush_all(); });
  settled("look_again", [](Manager& m) { m.event()->runners.look_again(); });
  settled("find_stored", [](Manager& m) { m.find_stored({}); });
  settled("forgive", [](Manager& m) { m.forgive(); });
  settled("drain", [](Manager& m) { m.drain(); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
