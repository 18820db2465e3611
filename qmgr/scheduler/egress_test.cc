/// The scheduler with sources of outgoing mail: what is kept apart by source, what is shared, and what follows when a
/// source can be used no more.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>

#include "lib/testing/suite.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(egress_in_the_scheduler)

namespace {

using ipc::delivery::Trouble;

struct World {
  destdb::MemoryTable table;
  Random random{1};
  SteadyTime now{seconds(1000)};
  TransportLimits limits;
  std::optional<Scheduler> scheduler;
  std::map<MessageNumber, std::string> source_of;  // where each message is sent from when it is routed
  std::string down;                                // this source's proxy fails
  bool holds = false;                              // jobs stay in hand

  std::vector<OpenConnection> opened;
  std::map<MessageNumber, ConnectionNumber> handed;
  std::map<MessageNumber, JobNumber> jobs;
  std::map<MessageNumber, std::string> deferred;
  std::vector<MessageNumber> routed;

  World() { start(); }
  void start() {
    scheduler.emplace(Options{}, [this](std::string_view) { return limits; }, table, random);
    time();
  }
  void time() {
    scheduler->set_time(
        now, WallTime(std::chrono::duration_cast<microseconds>(now.time_since_epoch()) + seconds(1'800'000'000)));
  }
  void message(MessageNumber n, const std::string& source) {
    source_of[n] = source;
    scheduler->admit(n, {0});
    carry_out();
  }
  void carry_out() {
    for (;;) {
      const auto actions = scheduler->take_actions();
      if (actions.empty()) return;
      for (const auto& a : actions) std::visit([this](const auto& x) { act(x); }, a);
    }
  }
  std::string source(MessageNumber n) const { return scheduler->source_of(handed.at(n)); }

  void act(const RouteRecipient& a) {
    routed.push_back(a.message);
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "a.example";
    r.recipient = "u@a.example";
    r.valid_for = seconds(86'400);
    ipc::Destination d;
    d.transport = "smtp";
    d.host = "mx";
    d.address = "192.0.2.1";
    d.port = 25;
    d.source = source_of.at(a.message);
    r.levels.push_back({{d}});
    scheduler->routed(a.message, a.ordinal, r);
  }
  void act(const OpenConnection& a) {
    opened.push_back(a);
    if (!down.empty() && a.destination.source == down) {
      scheduler->closed(a.connection, false, Trouble::source,
                        mail::make_status(mail::Action::deferred, "4.3.0", "proxy down"), {});
      return;
    }
    ipc::delivery::Features f;
    f.pipelining = true;
    f.window = 1;
    f.size_limit = 1234;
    scheduler->opened(a.connection, f);
  }
  void act(const HandJob& a) {
    handed[a.message] = a.connection;
    jobs[a.message] = a.job;
    if (!holds) done(a.message);
  }
  void done(MessageNumber n) {
    scheduler->job_done(jobs.at(n), milliseconds(20), JobEnd::served);
    scheduler->forget(n);
    if (holds) carry_out();
  }
  void act(const CloseConnection&) {}
  void act(const DeferRecipients& a) {
    deferred[a.message] = a.status.text;
    scheduler->forget(a.message);
  }
  std::optional<DestinationState> state(const std::string& source) {
    std::optional<DestinationState> found;
    scheduler->each_destination([&](const DestinationState& s) {
      if (s.address.source == source) found = s;
    });
    return found;
  }
};

}  // namespace

PEN_FIXTURE(World)

BOOST_AUTO_TEST_CASE(mail_of_one_source_does_not_ride_on_a_connection_of_another) {
  message(1, "a");
  message(2, "b");
  message(3, "a");
  message(4, "");
  BOOST_TEST(opened.size() == 3U);
  BOOST_TEST(source(1) == "a");
  BOOST_TEST(source(2) == "b");
  BOOST_TEST(handed[3] == handed[1]);
  BOOST_TEST(source(4).empty());
  BOOST_TEST(scheduler->connections_of_source("a") == 1U);
}

BOOST_AUTO_TEST_CASE(a_failure_is_the_sources_and_what_the_host_offers_is_known_to_all) {
  message(1, "b");
  scheduler->closed(handed[1], true, Trouble::none, {}, {});
  carry_out();
  BOOST_TEST(!opened.back().step_by_step);
  message(2, "a");
  scheduler->out_of_step(handed[2]);
  scheduler->closed(handed[2], true, Trouble::lost, mail::make_status(mail::Action::deferred, "4.4.2", "lost"), {});
  carry_out();
  // One that was there before knows it with its next connection.
  message(3, "b");
  BOOST_TEST(opened.back().destination.source == "b");
  BOOST_TEST(opened.back().step_by_step);
  // Another one knows it before its first.
  message(4, "c");
  BOOST_TEST(opened.back().step_by_step);
  BOOST_TEST(state("c")->facts.size_limit == 1234U);
  // And one that cannot open any yet: what is known goes into the choice of a host.
  scheduler->transport_up("smtp", false);
  message(5, "d");
  BOOST_TEST(state("d")->facts.size_limit == 1234U);
  scheduler->transport_up("smtp", true);
  carry_out();
  BOOST_TEST(source(5) == "d");
  // A refused connection of one is not held against the others.
  destdb::Facts failing;
  failing.failures = 3;
  failing.next_retry = WallTime(seconds(1'900'000'000));
  failing.reason = "blocked";
  table.put(state("a")->key, failing);
  start();
  message(11, "a");
  BOOST_TEST(deferred[11] == "blocked");
  message(12, "b");
  BOOST_TEST(source(12) == "b");
}

BOOST_AUTO_TEST_CASE(the_record_of_a_host_without_a_source_keeps_its_own_failures) {
  destdb::Facts host;
  host.failures = 2;
  host.reason = "down";
  message(1, "");
  const std::string key = state("")->key;
  table.put(key, host);
  message(2, "a");
  const auto after = table.find(key);
  BOOST_REQUIRE(after.has_value());
  BOOST_TEST(after->failures == 2U);
  BOOST_TEST(after->size_limit == 1234U);
}

BOOST_AUTO_TEST_CASE(what_a_source_cannot_send_is_routed_again_and_nothing_speaks_against_the_host) {
  down = "a";
  source_of[1] = "a";
  scheduler->admit(1, {0});
  // The second time its route has another source, as the caller would choose it.
  for (const auto& a : scheduler->take_actions()) std::visit([this](const auto& x) { act(x); }, a);
  source_of[1] = "b";
  carry_out();
  BOOST_TEST((routed == std::vector<MessageNumber>{1, 1}));
  BOOST_TEST(source(1) == "b");
  BOOST_TEST(deferred.empty());
  if (const auto a = state("a")) BOOST_TEST(a->facts.failures == 0U);
}

BOOST_AUTO_TEST_CASE(all_that_waits_for_a_source_is_routed_again_and_what_is_in_hand_ends) {
  limits.destination_concurrency = 1;
  start();
  holds = true;
  message(1, "a");
  message(2, "a");
  message(3, "a");
  message(4, "b");
  BOOST_TEST(!handed.contains(2));
  for (MessageNumber n = 2; n <= 3; ++n) source_of[n] = "c";
  scheduler->reroute_source("a");
  carry_out();
  BOOST_TEST((routed == std::vector<MessageNumber>{1, 2, 3, 4, 2, 3}));
  BOOST_TEST(source(1) == "a");
  const auto moved = handed.contains(2) ? 2 : 3;
  BOOST_TEST(source(static_cast<MessageNumber>(moved)) == "c");
  done(1);
  for (MessageNumber n = 2; n <= 4; ++n) {
    BOOST_TEST_REQUIRE(handed.contains(static_cast<MessageNumber>(moved)));
    if (handed.contains(n)) done(n);
  }
  BOOST_TEST(deferred.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
