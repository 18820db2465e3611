#include "lib/queue/views/story.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "lib/queue/views/destinations.h"
#include "lib/queue/views/limits.h"

namespace pen::views {
namespace {

using ipc::destinations::Class;
using ipc::destinations::Rule;
using ipc::queue::Entry;
using ipc::queue::Place;

constexpr const char* kAddress = "bob@b.example";

struct Rig {
  WallTime now{seconds(1'800'000'000)};
  Entry message;
  Route route;
  Rig() {
    message.queue_id = "4jYB";
    message.place = Place::deferred;
    message.sender = "ada@a.example";
    message.arrival = now - seconds(100);
    message.next_try = now + seconds(300);
    message.recipients = {{kAddress, "host mx.b.example[192.0.2.1] said: 450 4.2.0 later"}};
    route.explained.transport = "smtp";
    route.explained.nexthop = "b.example";
    route.explained.rule = Rule::closed;
    Seen host;
    host.entry.shown = "mx.b.example[192.0.2.1]:25";
    host.entry.transport = "smtp";
    host.entry.classification = Class::closed;
    host.entry.chosen = true;
    route.hosts.push_back(host);
  }
  Story told() const { return tell(message, {{kAddress, route}}, {}, now, 10); }
  RecipientStory recipient() const { return told().recipients.at(0); }
};

BOOST_AUTO_TEST_SUITE(story)

BOOST_AUTO_TEST_CASE(a_host_that_put_it_off_is_asked_again_at_the_next_try) {
  const Rig rig;
  const Story s = rig.told();
  BOOST_TEST(s.where.contains("in 5 min"));
  BOOST_CHECK(s.recipients[0].cause == Cause::put_off_by_host);
  BOOST_TEST(s.recipients[0].said.contains("450 4.2.0 later"));
  BOOST_TEST(s.recipients[0].destination == "smtp:b.example");
  BOOST_TEST(s.recipients[0].next.contains("mx.b.example[192.0.2.1]:25"));
  BOOST_CHECK(s.recipients[0].at == rig.message.next_try);
  BOOST_CHECK(s.ends == rig.message.arrival + seconds(432'000));
  BOOST_TEST(s.orders.front().starts_with("penqueue -i 4jYB"));
}

BOOST_AUTO_TEST_CASE(a_host_that_cannot_be_reached_is_tried_when_both_are_due) {
  Rig rig;
  auto& host = rig.route.hosts[0];
  host.entry.classification = Class::failing;
  host.facts.failures = 3;
  host.facts.reason = "connect to mx.b.example[192.0.2.1]:25: Connection refused";
  host.facts.next_retry = rig.now + seconds(1000);
  rig.route.explained.rule = Rule::nothing;
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::host_failing);
  BOOST_TEST(s.why.contains("3 failures in a row"));
  BOOST_TEST(s.why.contains("Connection refused"));
  BOOST_CHECK(s.at == rig.now + seconds(1000));
  BOOST_TEST(s.orders.front().starts_with("pendest show '[192.0.2.1]:25'"));
}

BOOST_AUTO_TEST_CASE(what_is_on_hold_waits_for_an_order) {
  Rig rig;
  rig.message.place = Place::hold;
  const Story s = rig.told();
  BOOST_CHECK(s.recipients[0].cause == Cause::on_hold);
  BOOST_CHECK(!s.ends);
  BOOST_TEST(s.orders.front().starts_with("pensuper -H 4jYB"));
}

BOOST_AUTO_TEST_CASE(a_suspended_destination_names_the_order_that_ends_it) {
  Rig rig;
  rig.route.explained.suspended = "delivery to b.example is suspended: until noon";
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::suspended);
  BOOST_TEST(s.why.contains("until noon"));
  BOOST_TEST(s.orders.front().starts_with("pendest resume 'b.example'"));
  BOOST_CHECK(!s.at);
}

BOOST_AUTO_TEST_CASE(a_rate_delay_a_full_class_and_busy_connections_are_told_apart) {
  Rig rig;
  rig.message.place = Place::active;
  rig.message.recipients[0].delay_reason.clear();
  auto& entry = rig.route.hosts[0].entry;
  entry.paused = milliseconds(40'000);
  rig.route.explained.rate_delay = milliseconds(60'000);
  BOOST_CHECK(rig.recipient().cause == Cause::rate_limited);
  BOOST_TEST(rig.recipient().why.contains("60 s"));
  BOOST_CHECK(rig.recipient().at == rig.now + seconds(40));
  entry.in_line = true;
  entry.session_class = "192.0.2.0/24";
  BOOST_CHECK(rig.recipient().cause == Cause::class_full);
  BOOST_TEST(rig.recipient().why.contains("192.0.2.0/24"));
  entry.in_line = false;
  entry.paused = {};
  rig.route.explained.rule = Rule::wait;
  BOOST_CHECK(rig.recipient().cause == Cause::busy);
  rig.route.explained.rule = Rule::room;
  BOOST_CHECK(rig.recipient().cause == Cause::delivering);
}

BOOST_AUTO_TEST_CASE(a_receiver_that_rests_is_said_to_rest_and_until_when) {
  Rig rig;
  auto& limit = rig.route.explained.limits.emplace_back();
  limit.group = "google";
  limit.domain = "other.example";
  limit.held = seconds(600);
  BOOST_CHECK(rig.recipient().cause == Cause::put_off_by_host);  // it is of other senders
  limit.domain = "a.example";
  limit.rate = "1/m";
  limit.reason = "421 4.7.28 an unusual rate of mail";
  limit.rule = "google-rate-dkim";
  limit.complaints = 1;
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::limited);
  BOOST_TEST(s.why.contains("google of a.example rests after a complaint"));
  BOOST_TEST(s.why.contains("google-rate-dkim"));
  BOOST_TEST(s.why.contains("421 4.7.28 an unusual rate of mail"));
  BOOST_TEST(s.next.contains("in 10 min"));
  BOOST_TEST(s.next.contains("at most 1/m"));
  BOOST_CHECK(s.at == rig.now + seconds(600));
  BOOST_TEST(s.orders.front().starts_with("pendest show 'google'"));
  // A source that it does not leave from.
  limit.source = "b";
  BOOST_CHECK(rig.recipient().cause == Cause::put_off_by_host);
  rig.route.hosts[0].entry.source = "b";
  BOOST_CHECK(rig.recipient().cause == Cause::limited);
}

BOOST_AUTO_TEST_CASE(a_quota_that_is_full_is_named_with_the_time_when_it_opens) {
  Rig rig;
  auto& explained = rig.route.explained;
  explained.limits.resize(2);
  explained.limits[0].group = "small";
  explained.limits[0].waiting = 3;
  auto& limit = explained.limits[1];
  limit.group = "google";
  limit.rate = limit.set = "20/s,300/m,5000/h";
  explained.quotas = {{.limit = 1, .rate = "300/m", .most = 300, .used = 300, .opens = seconds(20)},
                      {.limit = 1, .rate = "5000/h", .most = 5000, .used = 5000, .opens = seconds(600)}};
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::limited);
  BOOST_TEST(s.why == "google gets at most 20/s,300/m,5000/h, and has had all of 5000/h.");
  BOOST_TEST(s.next.starts_with("The next may be sent there "), s.next);
  BOOST_TEST(s.next.contains("in 10 min"), s.next);
  BOOST_CHECK(s.at == rig.now + seconds(600));
  BOOST_TEST(s.orders.front().starts_with("pendest show 'google'"));
  BOOST_TEST(limits_why(explained.limits, explained.quotas) ==
             "has had 5000/h, the next in 600 s, 3 jobs wait at limits");
  BOOST_TEST(quota_text(explained.quotas[1]) == "5000 of 5000/h, the next in 600 s");
  explained.quotas[0].opens = explained.quotas[1].opens = {};
  explained.quotas[1].most = explained.quotas[1].used = 2500;
  BOOST_TEST(quota_text(explained.quotas[1]) == "2500 of 5000/h (this host's part: 2500)");
  BOOST_TEST(limits_why(explained.limits, explained.quotas) == "at most 20/s,300/m,5000/h, 3 jobs wait at limits");
  const auto json = to_json(explained, {}, {});
  BOOST_TEST(json["limits"][1]["quotas"].size() == 2U);
  BOOST_TEST(json["limits"][1]["quotas"][1]["rate"] == "5000/h");
  BOOST_TEST(json["limits"][1]["quotas"][1]["used"] == 2500);
  BOOST_TEST(!json["limits"][1]["quotas"][1].contains("opens_ms"));
  BOOST_TEST(!json["limits"][0].contains("quotas"));
}

BOOST_AUTO_TEST_CASE(what_waits_at_a_limit_is_said_to_wait_there) {
  Rig rig;
  rig.message.place = Place::active;
  rig.message.recipients[0].delay_reason.clear();
  auto& limit = rig.route.explained.limits.emplace_back();
  limit.name = "tenant:acme";
  limit.rate = limit.set = "60/h";
  limit.connections = 2;
  BOOST_CHECK(rig.recipient().cause == Cause::delivering);
  limit.waiting = 7;
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::limited);
  BOOST_TEST(s.why.contains("tenant:acme gets at most 60/h and 2 connections, and 7 jobs wait"));
  BOOST_TEST(s.orders.front().starts_with("pendest show 'tenant:acme'"));
  BOOST_TEST(s.orders.at(1).starts_with("penconf delivery_limit_maps"));
}

BOOST_AUTO_TEST_CASE(a_pool_without_a_source_and_a_tenant_with_its_share_are_told_apart) {
  Rig rig;
  rig.message.recipients[0].delay_reason.clear();
  rig.message.share_waits = 12;
  BOOST_CHECK(rig.recipient().cause == Cause::waits_for_share);
  BOOST_TEST(rig.recipient().why.contains("12 such messages wait"));  // of its class: it has no tenant
  rig.message.tenant = "acme";
  BOOST_TEST(rig.recipient().why.contains("12 of its messages wait"));
  rig.message.share_waits = 0;
  BOOST_CHECK(rig.recipient().cause == Cause::next_try);
  rig.route.hosts.clear();
  rig.route.explained.rule = Rule::unroutable;
  rig.route.explained.status = "4.3.2";
  rig.route.explained.text = "no source of pool p can send to big: a: blocked";
  BOOST_CHECK(rig.recipient().cause == Cause::no_source);
  BOOST_TEST(rig.recipient().orders.front().starts_with("pendest sources"));
}

BOOST_AUTO_TEST_CASE(where_no_name_server_answers_nobody_knows_the_way) {
  Rig rig;
  rig.route.hosts.clear();
  rig.route.explained.rule = Rule::unroutable;
  rig.route.explained.status = "4.4.3";
  rig.route.explained.text = "Host or domain name not found. Name service error for name=b.example";
  const RecipientStory s = rig.recipient();
  BOOST_CHECK(s.cause == Cause::no_route);
  BOOST_TEST(s.why.contains("Name service error"));
  BOOST_TEST(s.next.contains("asked for again"));
  rig.route.explained.status = "5.1.2";
  BOOST_TEST(rig.recipient().next.contains("returned to the sender"));
}

BOOST_AUTO_TEST_CASE(many_recipients_are_counted_and_nothing_breaks_a_line) {
  Rig rig;
  rig.message.recipients.clear();
  for (int i = 0; i < 50; ++i) rig.message.recipients.push_back({"u\n" + std::to_string(i), "said\r\nmore"});
  rig.message.bounced.push_back({"gone@b.example", "", "550 no"});
  const Story s = rig.told();
  BOOST_TEST(s.recipients.size() == 10U);
  BOOST_TEST(s.left_out == 41U);
  const std::string text = text_of(s, rig.now);
  BOOST_TEST(text.contains("and 41 more"));
  BOOST_TEST(!text.contains('\r'));
  BOOST_TEST(text.contains("<u?0>"));
  const auto j = to_json(s);
  BOOST_TEST(j["recipients"].size() == 10U);
  BOOST_TEST(j["recipients_left_out"] == 41);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::views
