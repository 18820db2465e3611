/// What trivial-rewrite is asked, and what its answers and its deaths mean.
#include "qmgr/route_requests.h"

#include "lib/mail/expanded.h"
#include "qmgr/egress.h"
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

BOOST_AUTO_TEST_CASE(only_mail_that_is_sent_on_may_have_another_sender) {
  using Rewrites = ManagerOptions::Rewrites;
  const auto asks = [this](std::string_view id, Rewrites rewrites, auto change) {
    around.options.rewrites = rewrites;
    mail::Envelope e = envelope(std::string(id));
    change(e);
    work_on(std::move(e), {0});
    ask();
    return ports.forwarded.back();
  };
  const auto plain = [](mail::Envelope&) {};
  const auto alias = [](mail::Envelope& e) { e.recipients[0].original = "list@y.example"; };
  BOOST_TEST(!asks("A1", Rewrites::none, alias));
  BOOST_TEST(!asks("A2", Rewrites::forwarded, plain));
  BOOST_TEST(asks("A3", Rewrites::forwarded, alias));
  BOOST_TEST(asks("A4", Rewrites::all, plain));
  BOOST_TEST(asks("A5", Rewrites::forwarded, [](mail::Envelope& e) { e.recipients[0].notify = mail::notify::kCopy; }));
  BOOST_TEST(!asks("A6", Rewrites::all, [](mail::Envelope& e) { e.sender.clear(); }));
  BOOST_TEST(!asks("A7", Rewrites::all, [](mail::Envelope& e) { e.verp = "+="; }));
  BOOST_TEST(!asks("A8", Rewrites::all, [](mail::Envelope& e) { e.transport = "smtp:[192.0.2.1]"; }));
  BOOST_TEST(!asks("A9", Rewrites::all, [](mail::Envelope& e) { e.filter = "scan:"; }));
}

BOOST_AUTO_TEST_CASE(a_rewritten_sender_is_kept_for_this_round_and_for_nobody_else) {
  around.options.rewrites = ManagerOptions::Rewrites::forwarded;
  const auto alias = [this](const char* id, const char* to) {
    mail::Envelope e = envelope(id, {to});
    e.recipients[0].original = "list@y.example";
    return &work_on(std::move(e), {0});
  };
  Active& m = *alias("A1", "a@x.example");
  ask();
  auto route = resolved();
  route.sender = "SRS0=x@back.example";
  route.recipient = "a@x.example";
  answer(last(), route);
  BOOST_TEST(m.seldom().rewritten_sender == "SRS0=x@back.example");
  // What is known of the domain is for mail that keeps its sender.
  auto known = resolved();
  known.for_domain = true;
  known.valid_for = seconds(60);
  known.recipient = "b@x.example";
  work_on(envelope("A2", {"b@x.example"}), {0});
  ask();
  answer(last(), known);
  const auto before = ports.routes.size();
  alias("A3", "c@x.example");
  ask();
  BOOST_TEST(ports.routes.size() == before + 1);
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

BOOST_AUTO_TEST_CASE(a_recipient_of_the_suppression_list_has_its_result_without_an_attempt) {
  around.options.suppression = [](std::string_view transport) { return transport == "smtp"; };
  auto e = envelope("A1");
  e.tenant = "shop";
  Active& m = work_on(std::move(e), {0});
  ask();
  answer(last(), resolved());
  BOOST_TEST_REQUIRE(ports.suppression_asked.size() == 1U);
  const auto& asked = ports.suppression_asked[0];
  BOOST_TEST(asked.tenant == "shop");
  BOOST_TEST(asked.sender == "s@x.example");
  BOOST_TEST(asked.recipient == "r@x.example");
  std::vector<Action> actions;
  scheduler.take_actions(actions);
  BOOST_TEST(actions.empty());  // no connection is looked for meanwhile
  const ipc::suppression::Answer listed{.request = asked.request,
                                        .standing = ipc::suppression::Standing::listed,
                                        .reason = ipc::suppression::Reason::complaint};
  routes.suppression_answer(listed);
  BOOST_TEST(m.remaining.empty());
  BOOST_TEST(m.notes.begin()->second.status.dsn == "5.7.1");
  routes.suppression_answer(listed);  // one that comes twice counts once
  scheduler.take_actions(actions);
  BOOST_TEST(actions.empty());
}

BOOST_AUTO_TEST_CASE(others_go_on_when_the_list_has_answered_or_cannot_be_read) {
  around.options.suppression = [](std::string_view) { return true; };
  for (const auto standing : {ipc::suppression::Standing::free, ipc::suppression::Standing::unknown}) {
    work_on(envelope(standing == ipc::suppression::Standing::free ? "A1" : "A2"), {0});
    ask();
    answer(last(), resolved());
    routes.suppression_answer({.request = ports.suppression_asked.back().request, .standing = standing});
    std::vector<Action> actions;
    scheduler.take_actions(actions);
    BOOST_TEST(
        std::ranges::any_of(actions, [](const Action& a) { return std::holds_alternative<OpenConnection>(a); }) ==
        (standing == ipc::suppression::Standing::free));  // the second one waits for the first one's connection
  }
}

BOOST_AUTO_TEST_CASE(a_route_from_the_cache_is_asked_about_too) {
  around.options.suppression = [](std::string_view) { return true; };
  auto route = resolved();
  route.for_domain = true;
  route.valid_for = seconds(60);
  route.recipient = "a@x.example";
  work_on(envelope("A1", {"a@x.example"}), {0});
  ask();
  answer(last(), route);
  work_on(envelope("A2", {"b@x.example"}), {0});
  ask();
  BOOST_TEST(ports.asked.size() == 1U);
  BOOST_TEST_REQUIRE(ports.suppression_asked.size() == 2U);
  BOOST_TEST(ports.suppression_asked[1].recipient == "b@x.example");
}

BOOST_AUTO_TEST_CASE(a_recipient_waits_until_the_count_of_its_source_is_written) {
  auto setup = std::make_shared<egress::Setup>();
  setup->file = egress::parse("source new warmup=yes\npool p new\n").file;
  setup->default_pool = setup->file.pool("p");
  setup->schedule = {10, 20};
  const auto egress = std::make_shared<Egress>(Egress::Options{.setup = setup, .sends = {}, .provider_of = {}});
  around.options.egress = egress;
  const auto opened_from = [this] {
    std::vector<Action> actions;
    scheduler.take_actions(actions);
    const auto at = std::ranges::find_if(actions, [](auto& a) { return std::holds_alternative<OpenConnection>(a); });
    return at == actions.end() ? std::string() : std::get<OpenConnection>(*at).destination.source;
  };
  work_on(envelope("A1"), {0});
  ask();
  auto route = resolved();
  route.levels.front().destinations.front().address = "192.0.2.1";
  answer(last(), route);
  BOOST_TEST(ports.counts_asked == 1U);
  BOOST_TEST(opened_from() == "");
  routes.counts_written();  // of others
  BOOST_TEST(ports.counts_asked == 2U);
  BOOST_TEST(opened_from() == "");
  egress->ledger().kept(egress->ledger().take_changes());
  routes.counts_written();
  BOOST_TEST(opened_from() == "new");
  BOOST_TEST(egress->ledger().entries_of(0, around.now()).front().taken == 1U);
  routes.counts_written();
  BOOST_TEST(ports.counts_asked == 2U);
}

BOOST_AUTO_TEST_CASE(notices_and_other_transports_are_not_asked_about) {
  around.options.suppression = [](std::string_view transport) { return transport == "relay"; };
  work_on(envelope("A1"), {0});
  ask();
  answer(last(), resolved());
  around.options.suppression = [](std::string_view) { return true; };
  work_on(envelope("A2", {"r@x.example"}, ""), {0});
  ask();
  answer(last(), resolved());
  auto filtered = envelope("A3", {"r@x.example"}, "f@x.example");
  filtered.filter = "smtp:[127.0.0.1]:10025";
  work_on(std::move(filtered), {0});
  ask();
  answer(last(), resolved());
  BOOST_TEST(ports.suppression_asked.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
