/// A sender of many messages is served as one message, and verification has its own limits.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <map>

#include "lib/base/random.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

/// Look-ups and connections are answered when the test says so; jobs are noted in the order they are handed out.
struct Sources {
  destdb::MemoryTable table;
  Random random{1};
  Scheduler core;
  std::deque<RouteRecipient> look_ups;
  std::deque<OpenConnection> opening;
  std::deque<HandJob> handed;
  std::map<MessageNumber, std::size_t> delivered;

  explicit Sources(std::uint32_t routing_workers = 40, std::uint32_t its_workers = 100)
      : core(options(routing_workers), limits_of(its_workers), table, random) {
    core.set_time(SteadyTime(seconds(1000)), WallTime(seconds(1'800'000'000)));
  }
  static Options options(std::uint32_t routing_workers) {
    Options o;
    o.fairness.scale_max_concurrency = 10;
    o.routing_workers = routing_workers;
    return o;
  }
  static std::function<TransportLimits(std::string_view)> limits_of(std::uint32_t workers) {
    return [workers](std::string_view) {
      TransportLimits l;
      l.workers = workers;
      return l;
    };
  }
  void collect() {
    for (auto& a : core.take_actions()) {
      if (auto* r = std::get_if<RouteRecipient>(&a)) look_ups.push_back(*r);
      if (auto* o = std::get_if<OpenConnection>(&a)) opening.push_back(*o);
      if (auto* h = std::get_if<HandJob>(&a)) handed.push_back(*h);
    }
  }
  void arrive(MessageNumber number, SourceNumber source) {
    core.admit(number, {0}, source);
    collect();
  }
  /// Answers the oldest look-up: the host is this one, or one of the message's own.
  void route(const std::string& host = {}, std::size_t hosts = 1) {
    const RouteRecipient asked = look_ups.front();
    look_ups.pop_front();
    ipc::route::Resolved answer;
    answer.transport = "smtp";
    answer.nexthop = host.empty() ? "d" + std::to_string(asked.message) + ".example" : host;
    answer.recipient = "user@" + answer.nexthop;
    ipc::Destination d;
    d.transport = "smtp";
    d.host = "mx." + answer.nexthop;
    for (std::size_t i = 0; i < hosts; ++i) {
      if (i > 0) d.host = std::to_string(i) + "." + answer.nexthop;
      answer.levels.push_back({{d}});
    }
    answer.valid_for = seconds(3600);
    core.routed(asked.message, asked.ordinal, answer);
    collect();
  }
  void open() {
    const ConnectionNumber c = opening.front().connection;
    opening.pop_front();
    core.opened(c, {});
    collect();
  }
  /// The oldest job in hand is done.
  MessageNumber deliver() {
    const HandJob job = handed.front();
    handed.pop_front();
    ++delivered[job.message];
    core.job_done(job.job, milliseconds(1), JobEnd::served);
    core.forget(job.message);
    collect();
    return job.message;
  }
  bool asks_for(MessageNumber number) const {
    return std::any_of(look_ups.begin(), look_ups.end(), [&](const RouteRecipient& r) { return r.message == number; });
  }
};

constexpr SourceNumber kSender = 7;
constexpr MessageNumber kOther = 1000;

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_sources)

BOOST_AUTO_TEST_CASE(a_sender_of_many_messages_leaves_look_ups_for_others) {
  Sources s;
  for (MessageNumber number = 1; number <= 200; ++number) s.arrive(number, kSender);
  BOOST_TEST(s.look_ups.size() > 30U);  // most of what is free is his
  s.arrive(kOther, 0);
  BOOST_TEST(s.asks_for(kOther));
}

BOOST_AUTO_TEST_CASE(messages_of_a_sender_take_turns_with_others_as_one) {
  Sources s(1000, 1);
  for (MessageNumber number = 1; number <= 200; ++number) s.arrive(number, kSender);
  while (!s.look_ups.empty()) s.route("host.example");
  s.arrive(kOther, 0);
  s.route("host.example");
  s.open();
  // Before it: what stands on the connection already, then his ten that are parties of their own, and one turn more.
  std::size_t before = 0;
  while (s.deliver() != kOther) ++before;
  BOOST_TEST(before < 60U);
  while (!s.handed.empty()) s.deliver();
  BOOST_TEST(s.delivered.size() == 201U);
}

BOOST_AUTO_TEST_CASE(a_job_says_whether_its_route_has_other_hosts) {
  for (const std::size_t hosts : {1U, 2U}) {
    Sources s;
    s.arrive(1, kSender);
    s.route({}, hosts);
    s.open();
    BOOST_TEST_REQUIRE(s.handed.size() == 1U);
    BOOST_TEST(s.handed.front().other_hosts == (hosts > 1));
    s.deliver();
  }
}

BOOST_AUTO_TEST_CASE(one_who_sends_little_is_served_as_without_a_source) {
  Sources s(8);
  for (MessageNumber number = 1; number <= 8; ++number) s.arrive(number, kSender);
  BOOST_TEST(s.look_ups.size() == 8U);
}

BOOST_AUTO_TEST_CASE(a_pseudo_message_keeps_to_its_limits_and_comes_to_its_end) {
  Sources s;
  s.core.pseudo_message(kSender, {.routing = 2, .workers = 3});
  for (MessageNumber number = 1; number <= 50; ++number) s.arrive(number, kSender);
  BOOST_TEST(s.look_ups.size() == 2U);
  s.arrive(kOther, 0);
  BOOST_TEST(s.asks_for(kOther));  // the others' are not counted
  while (!s.look_ups.empty()) {
    BOOST_TEST(s.look_ups.size() <= 3U);
    s.route();
  }
  // Three connections of its own and one of the other message.
  BOOST_TEST(s.opening.size() == 4U);
  BOOST_TEST(s.core.figures().waiting_jobs == 51U);
  while (!s.opening.empty()) {
    s.open();
    BOOST_TEST(s.handed.size() == 1U);
    s.deliver();
    BOOST_TEST(s.opening.size() <= 4U);
  }
  BOOST_TEST(s.delivered.size() == 51U);
  BOOST_TEST(s.core.figures().messages == 0U);
  BOOST_TEST(s.core.figures().jobs == 0U);
}

BOOST_AUTO_TEST_CASE(messages_of_a_shared_party_can_be_withdrawn_one_by_one) {
  Sources s(5);
  s.core.pseudo_message(kSender, {.routing = 5, .workers = 1});
  for (MessageNumber number = 1; number <= 20; ++number) s.arrive(number, kSender);
  for (int i = 0; i < 10; ++i) s.route();
  for (const MessageNumber number : {20U, 9U, 5U}) {  // unrouted; waiting for a worker
    BOOST_TEST(s.core.withdraw(number) == Ordinals{0});
    s.core.forget(number);
  }
  while (!s.look_ups.empty()) s.route();
  while (!s.opening.empty()) {
    s.open();
    s.deliver();
  }
  BOOST_TEST(s.delivered.size() == 17U);
  BOOST_TEST(s.core.figures().messages == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
