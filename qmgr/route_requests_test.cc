/// What trivial-rewrite is asked, and what its answers and its deaths mean.
#include "qmgr/route_requests.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Requests : RoundsFixture {
  RouteRequests routes{around, active, rounds};
  Requests() : RoundsFixture(10) {}

  /// Carries out what the scheduler asks of trivial-rewrite.
  void ask() {
    std::vector<Action> actions;
    scheduler.take_actions(actions);
    for (const auto& a : actions)
      if (const auto* route = std::get_if<RouteRecipient>(&a)) routes.ask(*route);
  }
  std::uint64_t last() const { return ports.routes.back().request; }
  void answer(std::uint64_t request, std::variant<ipc::route::Resolved, ipc::route::Unroutable> with) {
    ipc::route::Routed routed;
    routed.request = request;
    routed.answer = std::move(with);
    routes.routed(routed);
  }
  static ipc::route::Resolved resolved() {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "x.example";
    ipc::Destination host;
    host.transport = "smtp";
    host.host = "mx.x.example";
    r.levels.push_back({{host}});
    return r;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(route_requests, Requests)

BOOST_AUTO_TEST_CASE(a_recipient_without_a_route_has_its_result) {
  Active& m = work_on(envelope("A1"), {0});
  ask();
  BOOST_TEST((ports.asked == std::vector<std::string>{"r@x.example"}));
  answer(last(), ipc::route::Unroutable{failed()});
  BOOST_TEST(m.remaining.empty());
  settle_results();
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(an_answer_counts_once) {
  Active& m = work_on(envelope("A1"), {0});
  ask();
  const auto request = last();
  answer(request, ipc::route::Unroutable{later()});
  BOOST_TEST(m.outstanding == 0U);
  answer(request, ipc::route::Unroutable{later()});
  BOOST_TEST(m.outstanding == 0U);
}

BOOST_AUTO_TEST_CASE(a_rewritten_address_is_kept_for_this_round) {
  Active& m = work_on(envelope("A1"), {0});
  ask();
  auto route = resolved();
  route.recipient = "other@x.example";
  answer(last(), route);
  BOOST_TEST(m.seldom().rewritten.at(0) == "other@x.example");
}

BOOST_AUTO_TEST_CASE(a_route_for_a_whole_domain_is_not_asked_for_again_in_its_time) {
  work_on(envelope("A1", {"a@x.example"}), {0});
  ask();
  auto route = resolved();
  route.for_domain = true;
  route.valid_for = seconds(60);
  route.recipient = "a@x.example";
  answer(last(), route);
  work_on(envelope("A2", {"b@x.example"}), {0});
  ask();
  BOOST_TEST(ports.asked.size() == 1U);
  routes.forget_routes();
  work_on(envelope("A3", {"c@x.example"}), {0});
  ask();
  BOOST_TEST(ports.asked.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_message_whose_look_up_kills_the_program_three_times_is_held) {
  Active& m = work_on(envelope("A1"), {0});
  for (int death = 1; death <= 3; ++death) {
    BOOST_TEST((m.order == Active::Order::none));
    ask();
    routes.lost(last());
  }
  BOOST_TEST(ports.asked.size() == 3U);
  BOOST_TEST((m.order == Active::Order::hold));
  BOOST_TEST(m.outstanding == 0U);
}

BOOST_AUTO_TEST_CASE(what_never_reached_the_program_is_not_asked_again) {
  Active& m = work_on(envelope("A1"), {0});
  ask();
  routes.lost(last() - 1);
  ask();
  BOOST_TEST(ports.asked.size() == 1U);
  answer(last(), ipc::route::Unroutable{later()});
  BOOST_TEST(m.outstanding == 0U);
}

BOOST_AUTO_TEST_CASE(an_address_that_a_command_may_take_for_an_option_is_not_asked_about) {
  around.options.allow_minus = false;
  Active& m = work_on(envelope("A1", {"-rf@x.example"}), {0});
  ask();
  BOOST_TEST(ports.asked.empty());
  BOOST_TEST(m.remaining.empty());
}

BOOST_AUTO_TEST_CASE(a_tool_hears_the_answer_or_of_the_death) {
  std::string heard;
  const auto hear = [&](ipc::route::Routed* r) { heard += r == nullptr ? "lost " : "routed "; };
  answer(routes.look_up("r@x.example", {}, hear), resolved());
  routes.lost(routes.look_up("r@x.example", {}, hear));
  const auto forgotten = routes.look_up("r@x.example", {}, hear);
  routes.forget_look_up(forgotten);
  routes.lost(forgotten);
  BOOST_TEST(heard == "routed lost ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
