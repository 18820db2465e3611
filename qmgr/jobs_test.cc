/// What becomes of the recipients of a job: by its result, by none, by the death of its program.
#include "qmgr/jobs.h"

#include <algorithm>
#include <map>

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct InHand : RoundsFixture {
  Jobs jobs{around, active, rounds};
  std::vector<std::uint32_t> forwarded;  // these get a rewritten sender
  InHand() : RoundsFixture(10) {}

  /// Routes what the scheduler has, opens its connections and hands out its jobs.
  void pump() {
    std::vector<Action> actions;
    for (int i = 0; i < 100; ++i) {
      scheduler.take_actions(actions);
      if (actions.empty()) return;
      for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
    }
    BOOST_FAIL("the scheduler does not come to rest");
  }
  void act(const RouteRecipient& a) {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "x.example";
    r.recipient = active.at(a.message).envelope().recipients[a.ordinal].address;
    ipc::Destination host;
    host.transport = "smtp";
    host.host = "mx.x.example";
    r.levels.push_back({{host}});
    Sharing sharing = active.at(a.message).envelope().verp.empty() ? Sharing::all : Sharing::alone;
    if (std::ranges::find(forwarded, a.ordinal) != forwarded.end()) {
      sharing = Sharing::rewritten;
      active.at(a.message).rare().rewritten_sender = "SRS0=x@back.example";
    }
    scheduler.routed(a.message, a.ordinal, r, sharing);
  }
  void act(const OpenConnection& a) {
    ipc::delivery::Features f;
    f.window = 5;
    scheduler.opened(a.connection, f);
  }
  void act(HandJob& a) { jobs.hand(a); }
  void act(const CloseConnection&) {}
  void act(const DeferRecipients& a) { jobs.deferred(a); }

  Active& handed(const std::vector<std::string>& to = {"r@x.example"}, const std::string& verp = {}) {
    Ordinals all;
    for (std::uint32_t i = 0; i < to.size(); ++i) all.push_back(i);
    mail::Envelope e = envelope("A1", to);
    e.verp = verp;
    Active& m = work_on(std::move(e), all);
    pump();
    return m;
  }
  /// Ends the job in hand, for which the next one waits.
  void delivered() {
    Ordinals all;
    for (const auto& r : ports.jobs.back().recipients) all.push_back(r.ordinal);
    result({{all, ok()}});
    pump();
  }
  /// Sender and recipients of each job, by their first recipient.
  std::map<std::string, std::string> senders() const {
    std::map<std::string, std::string> out;
    for (const auto& job : ports.jobs) {
      std::string to;
      for (const auto& r : job.recipients) to += (to.empty() ? "" : " ") + r.recipient.address;
      out[to] = job.sender + (job.other_sender ? " for them" : "") + job.verp;
    }
    return out;
  }
  void result(const std::vector<std::pair<Ordinals, mail::DeliveryStatus>>& results) {
    ipc::delivery::JobResult r;
    r.job = ports.jobs.back().job;
    for (const auto& [ordinals, status] : results) r.results.push_back({ordinals, status});
    jobs.result(r);
  }
  void program_dies() {
    const auto job = ports.jobs.back();
    jobs.survived_death(job.job);
    ipc::delivery::ConnectionClosed closed;
    closed.connection = job.connection;
    closed.opened = true;
    closed.unstarted = {job.job};
    jobs.connection_closed(closed);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(jobs, InHand)

BOOST_AUTO_TEST_CASE(who_sees_a_rewritten_sender_shares_no_transaction_with_who_does_not) {
  forwarded = {1, 3};
  const Active& m = handed({"a@x.example", "b@x.example", "c@x.example", "d@x.example"});
  const std::string sender = m.envelope().sender;
  BOOST_REQUIRE(!sender.empty());
  delivered();
  BOOST_TEST(
      (senders() == std::map<std::string, std::string>{{"a@x.example c@x.example", sender},
                                                       {"b@x.example d@x.example", "SRS0=x@back.example for them"}}));
  // The queue knows the sender as it was.
  BOOST_TEST(m.envelope().sender == sender);
}

BOOST_AUTO_TEST_CASE(each_recipient_of_a_verp_message_has_a_sender_and_a_transaction_of_its_own) {
  const Active& m = handed({"a@x.example", "b@x.example"}, "+=");
  const std::string sender = m.envelope().sender;
  delivered();
  const auto at = sender.find('@');
  const auto own = [&](const char* user) {
    return sender.substr(0, at) + "+" + user + "=x.example" + sender.substr(at) + " for them";
  };
  BOOST_TEST((senders() == std::map<std::string, std::string>{{"a@x.example", own("a")}, {"b@x.example", own("b")}}));
}

BOOST_AUTO_TEST_CASE(each_recipient_has_the_result_of_its_own) {
  Active& m = handed({"a@x.example", "b@x.example"});
  BOOST_REQUIRE(ports.jobs.size() == 1U);
  BOOST_TEST(ports.jobs[0].queue_id == "A1");
  BOOST_TEST(ports.jobs[0].recipients.size() == 2U);
  result({{{0}, ok()}, {{1}, later()}});
  settle_results();
  BOOST_TEST(!m.remaining.contains(0));
  BOOST_TEST(m.notes.at(1).status.text == "450 later");
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(who_has_no_result_is_deferred_and_the_first_word_stands) {
  Active& m = handed({"a@x.example", "b@x.example"});
  result({{{0}, ok()}, {{0, 7}, failed()}});
  settle_results();
  BOOST_TEST(!m.notes.contains(0));
  BOOST_TEST(m.remaining.contains(1));
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(a_result_counts_once) {
  Active& m = handed();
  result({{{0}, later()}});
  result({{{0}, failed()}});
  BOOST_TEST(m.remaining.contains(0));
}

BOOST_AUTO_TEST_CASE(a_job_in_hand_at_the_third_death_of_its_program_is_held) {
  Active& m = handed();
  for (int death = 1; death <= 3; ++death) {
    BOOST_TEST((m.order == Active::Order::none));
    BOOST_TEST(ports.jobs.size() == static_cast<std::size_t>(death));
    program_dies();
    pump();
  }
  BOOST_TEST((m.order == Active::Order::hold));
  BOOST_TEST(m.outstanding == 0U);
}

BOOST_AUTO_TEST_CASE(a_result_ends_the_count_of_deaths) {
  Active& m = handed({"a@x.example", "b@x.example"});
  program_dies();
  pump();
  result({{{0}, later()}, {{1}, later()}});
  BOOST_TEST(m.seldom().deaths.empty());
}

BOOST_AUTO_TEST_CASE(content_that_cannot_be_opened_is_handed_to_nobody) {
  ports.spool_opens = false;
  Active& m = work_on(envelope("A1"), {0});
  m.spool_file = 3;
  pump();
  BOOST_TEST(ports.jobs.empty());
  BOOST_TEST(m.notes.at(0).status.text == "cannot open the message's content");
  BOOST_TEST(rounds.next_over() == &m);
  m.spool_file = 0;
}

BOOST_AUTO_TEST_CASE(a_transport_that_goes_with_the_stop_defers_nothing) {
  Active& m = work_on(envelope("A1"), {0});
  scheduler.transport_up("smtp", false);
  pump();
  jobs.drain();
  jobs.transport_failed("smtp", "gone");
  pump();
  BOOST_TEST(m.outstanding == 1U);
}

BOOST_AUTO_TEST_CASE(the_suppression_list_hears_what_a_host_says_of_an_address) {
  around.options.suppression = [](std::string_view transport) { return transport == "smtp"; };
  handed({"a@x.example", "b@x.example", "c@x.example", "d@x.example"});
  const auto said = [](const char* dsn, const char* words) {
    return mail::DeliveryStatus{mail::Action::failed, dsn, "host mx said", std::string("smtp; ") + words,
                                "mx.x.example"};
  };
  mail::DeliveryStatus ours = failed();
  ours.dsn = "5.1.1";
  result({{{0}, said("5.1.1", "550 5.1.1 no such user")},
          {{1}, said("5.7.1", "550 5.7.1 blocked")},
          {{2}, said("5.2.1", "550 5.2.1 inactive")},
          {{3}, ours}});
  BOOST_TEST_REQUIRE(ports.suppression_told.size() == 2U);
  BOOST_TEST(ports.suppression_told[0].address == "a@x.example");
  BOOST_TEST(ports.suppression_told[0].certain);
  BOOST_TEST(ports.suppression_told[0].text == "550 5.1.1 no such user");
  BOOST_TEST(ports.suppression_told[1].address == "c@x.example");
  BOOST_TEST(!ports.suppression_told[1].certain);
}

BOOST_AUTO_TEST_CASE(among_tenants_mail_of_none_puts_no_address_on_the_list_of_all) {
  around.options.suppression = [](std::string_view) { return true; };
  around.options.tenants = true;
  handed();
  result({{{0}, mail::DeliveryStatus{mail::Action::failed, "5.1.1", "x", "smtp; 550 5.1.1 no", "mx.x.example"}}});
  BOOST_TEST(ports.suppression_told.empty());
}

BOOST_AUTO_TEST_CASE(without_a_suppression_list_nobody_hears_of_failures) {
  handed();
  result({{{0}, mail::DeliveryStatus{mail::Action::failed, "5.1.1", "x", "smtp; 550 5.1.1 no", "mx.x.example"}}});
  BOOST_TEST(ports.suppression_told.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
