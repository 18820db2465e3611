// check_policy_service: protocol, settings of a service, connections, and what sessions make of it.
#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "smtpd/policy_fixture.h"
#include "smtpd/policy_protocol.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::PolicyServer;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(policy_services)

namespace {

constexpr std::string_view kOk = "250 2.1.5 Ok\r\n";
constexpr std::string_view kProblem =
    "451 4.3.5 <user@example.org>: Recipient address rejected: Server configuration problem\r\n";

/// Sessions: a policy server is asked about their recipients.
struct Asking {
  explicit Asking(std::string settings = {}, std::string braces = {})
      : rig("smtpd_relay_restrictions = reject_unauth_destination\nsmtpd_recipient_restrictions = "
            "check_policy_service " +
            (braces.empty() ? service() : "{ " + service() + ", " + braces + " }") + "\n" + settings),
        server(rig.loop, scratch.file("p")) {
    BOOST_TEST_REQUIRE(rig.problem == "");
    for (const auto& warning : rig.policy->warnings) BOOST_TEST(warning == "");
    rig.connect();
    rig.say("EHLO client.example\r\n");
  }
  std::string service() const { return "unix:" + scratch.file("p"); }
  std::string begin(std::string_view parameters = {}) {
    rig.say("RSET\r\n");
    return rig.say("MAIL FROM:<s@remote.example>" + std::string(parameters) + "\r\n");
  }
  std::string rcpt(std::string_view to = "user@example.org") {
    return rig.say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
  std::string both(std::string_view action) {
    server.answers = {std::string(action)};
    begin();
    return rcpt();
  }
  /// Lets time pass, and what waits for it go on.
  std::string after(milliseconds time) {
    rig.clock.advance(time);
    return rig.settle();
  }
  const PolicyServer::Asked& last() const { return server.asked.back(); }

  pen::testing::ScratchDir scratch;
  Rig rig;
  PolicyServer server;
};

/// A client beside the rig's own.
struct Beside {
  explicit Beside(Rig& rig_in) : rig(rig_in) {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd = Fd(fds[1]);
    rig.sessions.spawn("session", Session::serve(rig.server, async::Stream(rig.loop, Fd(fds[0])),
                                                 async::SocketAddress::inet("192.0.2.8", 4712), {}));
    settle();  // the greeting
    say("EHLO beside.example\r\n");
    say("MAIL FROM:<s@remote.example>\r\n");
  }
  std::string say(std::string_view text) {
    BOOST_REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    return settle();
  }
  std::string settle() {
    std::string out;
    for (int i = 0; i < 8; ++i) rig.loop.run_once();
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
      out.append(buffer, static_cast<std::size_t>(n));
    return out;
  }
  Rig& rig;
  Fd fd;
};

Result<PolicyService> read(std::string_view text) {
  config::Settings s;
  s.queue_directory = "/var/spool/penstock";
  s.inet_protocols = {"all"};
  s.smtpd_policy_service_timeout = seconds(100);
  s.smtpd_policy_service_try_limit = 2;
  return PolicyService::read(text, s);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_request_has_every_attribute_in_postfix_s_order) {
  PolicyQuery query;
  query.protocol_state = "RCPT";
  query.sender = std::string_view("a\nb\0c\rd", 7);
  query.recipient_count = 3;
  query.mail_version = "0.1";
  BOOST_TEST(policy_request(query) ==
             "request=smtpd_access_policy\nprotocol_state=RCPT\nprotocol_name=\nclient_address=\nclient_name=\n"
             "client_port=\nreverse_client_name=\nserver_address=\nserver_port=\nhelo_name=\nsender=a?b?c?d\n"
             "recipient=\nrecipient_count=3\nqueue_id=\ninstance=\nsize=0\netrn_domain=\nstress=\nsasl_method=\n"
             "sasl_username=\nsasl_sender=\nccert_subject=\nccert_issuer=\nccert_fingerprint=\n"
             "ccert_pubkey_fingerprint=\nencryption_protocol=\nencryption_cipher=\nencryption_keysize=0\ntls_sni=\n"
             "policy_context=\ncompatibility_level=\nmail_version=0.1\n\n");
}

BOOST_AUTO_TEST_CASE(the_first_action_of_a_reply_counts) {
  PolicyReply reply;
  BOOST_TEST(reply.line("x=y", true).has_value());
  BOOST_TEST(reply.line("action=REJECT a=b ", true).has_value());
  BOOST_TEST(reply.line("action=OK", true).has_value());
  BOOST_TEST(!reply.complete());
  BOOST_TEST(reply.line("", true).has_value());
  BOOST_TEST(reply.complete());
  BOOST_TEST(reply.action() == "REJECT a=b");
}

BOOST_AUTO_TEST_CASE(a_reply_that_breaks_the_protocol_is_an_error) {
  const auto error_of = [](std::string_view line, bool utf8 = true) {
    PolicyReply reply;
    return reply.line(line, utf8);
  };
  BOOST_TEST(error_of("").error().is(PolicyReplyError::no_action));
  BOOST_TEST(error_of("DUNNO").error().is(PolicyReplyError::malformed));
  BOOST_TEST(error_of("=DUNNO").error().is(PolicyReplyError::malformed));
  BOOST_TEST(error_of(std::string_view("action=a\0b", 10)).error().is(PolicyReplyError::malformed));
  BOOST_TEST(error_of("action=REJECT \xff").error().is(PolicyReplyError::not_utf8));
  BOOST_TEST(error_of("action=REJECT \xff", false).has_value());
  BOOST_TEST(error_of("Action=OK").has_value());
  PolicyReply long_one;
  for (std::size_t i = 0; i < PolicyReply::kMaxSize / 4; ++i) BOOST_REQUIRE(long_one.line("a=b", true).has_value());
  BOOST_TEST(long_one.line("a=b", true).error().is(PolicyReplyError::too_large));
}

BOOST_AUTO_TEST_CASE(a_service_is_an_address_or_a_group_with_settings_of_its_own) {
  auto plain = read("unix:private/policy");
  BOOST_TEST_REQUIRE(plain.has_value());
  BOOST_TEST(plain->address.path == "/var/spool/penstock/private/policy");
  BOOST_TEST((plain->timeout == seconds(100)));
  auto inet = read("inet:[::1]:10031");
  BOOST_TEST_REQUIRE(inet.has_value());
  BOOST_TEST(inet->address.text() == "inet:[::1]:10031");
  auto group = read(
      "{ inet:policy.example:10031, timeout=10s, max_idle=1m max_ttl=1h, request_limit=7, try_limit=1 "
      "retry_delay=500ms, { default_action = 451 4.3.5 later on }, policy_context=submission }");
  BOOST_TEST_REQUIRE(group.has_value());
  BOOST_TEST(group->address.host == "policy.example");
  BOOST_TEST((group->timeout == seconds(10)));
  BOOST_TEST((group->max_idle == seconds(60)));
  BOOST_TEST((group->max_ttl == seconds(3600)));
  BOOST_TEST((group->retry_delay == milliseconds(500)));
  BOOST_TEST(group->request_limit == 7);
  BOOST_TEST(group->try_limit == 1);
  BOOST_TEST(group->default_action == "451 4.3.5 later on");
  BOOST_TEST(group->context == "submission");
  for (const char* wrong :
       {"", "{}", "/run/policy", "inet:10031", "inet:127.0.0.1:x", "{ unix:p, timeout }", "{ unix:p, timeout=x }",
        "{ unix:p, try_limit=0 }", "{ unix:p, colour=red }", "{ unix:p, timeout=0 }", "{ timeout=1, unix:p }"})
    BOOST_TEST(!read(wrong).has_value(), wrong);
}

BOOST_AUTO_TEST_CASE(a_service_that_cannot_be_read_is_a_warning_and_defers_mail) {
  Rig rig(
      "smtpd_relay_restrictions = reject_unauth_destination\n"
      "smtpd_recipient_restrictions = check_policy_service { unix:p, colour=red }\n");
  BOOST_TEST_REQUIRE(rig.policy->warnings.size() == 1);
  BOOST_TEST(rig.policy->warnings.front().contains("colour=red"));
  rig.connect();
  rig.say("EHLO c\r\n");
  rig.say("MAIL FROM:<a@b.example>\r\n");
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n").starts_with("451 4.3.5 "));
}

BOOST_AUTO_TEST_CASE(each_action_has_the_effect_of_an_access_table_s) {
  Asking it;
  struct Row {
    std::string action, reply;
  };
  const std::string to = "<user@example.org>: Recipient address rejected: ";
  const Row rows[] = {
      {"OK", std::string(kOk)},
      {"dunno", std::string(kOk)},
      {"REJECT", "554 5.7.1 " + to + "Access denied\r\n"},
      {"REJECT 5.7.9 not you", "554 5.7.9 " + to + "not you\r\n"},
      {"DEFER", "450 4.7.1 " + to + "Access denied\r\n"},
      {"DEFER_IF_PERMIT Greylisted, see you", "450 4.7.1 " + to + "Greylisted, see you\r\n"},
      {"defer_if_reject later", std::string(kOk)},
      {"550 5.7.23 SPF fail", "550 5.7.23 " + to + "SPF fail\r\n"},
      {"421 4.7.0 go", "421 4.7.0 " + to + "go\r\n"},
      {"12345", std::string(kOk)},
      {"WARN look", std::string(kOk)},
      {"INFO look", std::string(kOk)},
      {"HOLD", std::string(kOk)},
      {"reject_unauth_destination, reject", "554 5.7.1 " + to + "Access denied\r\n"},
      {"", std::string(kOk)},  // as in Postfix
      {"HANGUP", "451 4.3.5 Server configuration error\r\n"},
  };
  for (const auto& row : rows) {
    if (row.action == "12345") {  // the row before has ended the session
      it.rig.connect();
      it.rig.say("EHLO client.example\r\n");
    }
    BOOST_TEST(it.both(row.action) == row.reply, row.action);
  }
  BOOST_TEST(it.server.connections == 1);  // one after the other
}

BOOST_AUTO_TEST_CASE(actions_on_the_message_reach_the_queue) {
  Asking it;
  it.both("PREPEND X-Policy: seen");
  it.rig.say("DATA\r\n");
  BOOST_TEST(it.rig.say("Subject: x\r\n\r\nbody\r\n.\r\n").starts_with("250"));
  BOOST_TEST_REQUIRE(it.rig.queue.stored.size() == 1);
  BOOST_TEST(it.rig.queue.stored.front().content.contains("X-Policy: seen\r\n"));
}

BOOST_AUTO_TEST_CASE(the_server_is_told_of_client_and_message) {
  Asking it("smtpd_policy_service_policy_context = in\n");
  it.begin(" SIZE=1234");
  BOOST_TEST(it.rcpt() == kOk);
  const auto& a = it.last();
  BOOST_TEST(a.at("request") == "smtpd_access_policy");
  BOOST_TEST(a.at("protocol_state") == "RCPT");
  BOOST_TEST(a.at("protocol_name") == "ESMTP");
  BOOST_TEST(a.at("client_address") == "192.0.2.7");
  BOOST_TEST(a.at("client_name") == "client.example");
  BOOST_TEST(a.at("client_port") == "4711");
  BOOST_TEST(a.at("reverse_client_name") == "client.example");
  BOOST_TEST(a.at("server_address") == "unknown");  // a socket pair
  BOOST_TEST(a.at("helo_name") == "client.example");
  BOOST_TEST(a.at("sender") == "s@remote.example");
  BOOST_TEST(a.at("recipient") == "user@example.org");
  BOOST_TEST(a.at("recipient_count") == "0");
  BOOST_TEST(a.at("queue_id") == "");
  BOOST_TEST(a.at("size") == "1234");
  BOOST_TEST(a.at("policy_context") == "in");
  BOOST_TEST(a.at("compatibility_level") == "3.6");
  BOOST_TEST(a.at("mail_version") != "");
  BOOST_TEST(a.size() == 32);
  const std::string instance = a.at("instance");
  BOOST_TEST(std::ranges::count(instance, '.') == 3);
  it.rcpt("root@example.org");
  BOOST_TEST(it.last().at("instance") == instance);
  BOOST_TEST(it.last().at("queue_id") == "Q1");
  it.begin();
  it.rcpt();
  BOOST_TEST(it.last().at("instance") != instance);
}

BOOST_AUTO_TEST_CASE(at_the_content_it_is_told_how_many_recipients_and_how_much) {
  pen::testing::ScratchDir scratch;
  const std::string list = "check_policy_service unix:" + scratch.file("p") + "\n";
  Rig rig("smtpd_relay_restrictions = reject_unauth_destination\nsmtpd_data_restrictions = " + list +
          "smtpd_end_of_data_restrictions = " + list);
  PolicyServer server(rig.loop, scratch.file("p"));
  rig.connect();
  rig.say("EHLO c.example\r\n");
  rig.say("MAIL FROM:<> SIZE=5\r\nRCPT TO:<user@example.org>\r\n");
  rig.say("DATA\r\n");
  BOOST_TEST_REQUIRE(server.asked.size() == 1);
  BOOST_TEST(server.asked[0].at("protocol_state") == "DATA");
  BOOST_TEST(server.asked[0].at("recipient") == "user@example.org");
  BOOST_TEST(server.asked[0].at("recipient_count") == "1");
  BOOST_TEST(server.asked[0].at("size") == "5");
  rig.say("0123456789\r\n.\r\n");
  BOOST_TEST_REQUIRE(server.asked.size() == 2);
  BOOST_TEST(server.asked[1].at("protocol_state") == "END-OF-MESSAGE");
  BOOST_TEST(server.asked[1].at("size") == "12");
  BOOST_TEST(server.asked[1].at("instance") == server.asked[0].at("instance"));
  rig.say("MAIL FROM:<>\r\nRCPT TO:<user@example.org>\r\nRCPT TO:<root@example.org>\r\n");
  server.answers = {"554 no bulk"};
  BOOST_TEST(rig.say("DATA\r\n") == "554 5.7.1 <DATA>: Data command rejected: no bulk\r\n");
  BOOST_TEST(server.asked[2].at("recipient") == "");
  BOOST_TEST(server.asked[2].at("recipient_count") == "2");
}

BOOST_AUTO_TEST_CASE(before_mail_there_is_no_instance_and_states_are_the_commands) {
  pen::testing::ScratchDir scratch;
  const std::string list = "check_policy_service unix:" + scratch.file("p") + "\n";
  Rig rig("smtpd_delay_reject = no\nsmtpd_client_restrictions = " + list + "smtpd_helo_restrictions = " + list +
          "smtpd_sender_restrictions = " + list);
  PolicyServer server(rig.loop, scratch.file("p"));
  rig.connect();
  for (const char* command : {"HELO a.example\r\n", "EHLO b.example\r\n", "MAIL FROM:<s@remote.example>\r\n"})
    rig.say(command);
  BOOST_TEST_REQUIRE(server.asked.size() == 4);
  const char* states[] = {"CONNECT", "HELO", "EHLO", "MAIL"};
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(server.asked[i].at("protocol_state") == states[i]);
    BOOST_TEST((server.asked[i].at("instance") == "") == (i < 3));
  }
}

BOOST_AUTO_TEST_CASE(xclient_s_addresses_are_the_client_s_and_the_server_s) {
  Asking it("smtpd_authorized_xclient_hosts = 192.0.2.7\n");
  it.rig.say("XCLIENT NAME=far.example ADDR=198.51.100.9 PORT=99 DESTADDR=203.0.113.5 DESTPORT=25\r\n");
  it.rig.say("EHLO far.example\r\n");
  it.begin();
  it.rcpt();
  BOOST_TEST(it.last().at("client_address") == "198.51.100.9");
  BOOST_TEST(it.last().at("client_port") == "99");
  BOOST_TEST(it.last().at("server_address") == "203.0.113.5");
  BOOST_TEST(it.last().at("server_port") == "25");
}

BOOST_AUTO_TEST_CASE(recipients_of_a_pipelined_group_are_asked_about_one_after_the_other) {
  Asking it;
  it.server.answers = {"hang"};
  it.rig.send("MAIL FROM:<s@remote.example>\r\nRCPT TO:<user@example.org>\r\nRCPT TO:<root@example.org>\r\n");
  it.rig.settle();
  BOOST_TEST(it.server.asked.size() == 1);
  it.server.let_go();
  it.rig.settle();
  BOOST_TEST_REQUIRE(it.server.asked.size() == 2);
  BOOST_TEST(it.server.connections == 1);
}

BOOST_AUTO_TEST_CASE(a_transaction_keeps_its_connection) {
  Asking it;
  Beside other(it.rig);
  it.begin();
  it.rcpt();                                    // 0
  other.say("RCPT TO:<user@example.org>\r\n");  // 1: the first one belongs to a transaction
  it.rcpt("root@example.org");
  other.say("RCPT TO:<root@example.org>\r\n");
  BOOST_TEST(it.server.over == (std::vector<std::size_t>{0, 1, 0, 1}), boost::test_tools::per_element());
  it.begin();  // its transaction is over, anybody may have the connection
  Beside third(it.rig);
  third.say("RCPT TO:<user@example.org>\r\n");
  BOOST_TEST(it.server.over.back() == 0);
}

BOOST_AUTO_TEST_CASE(a_connection_ends_when_it_is_idle_old_or_has_served_enough) {
  Asking it("smtpd_policy_service_max_idle = 10s\nsmtpd_policy_service_max_ttl = 25s\n");
  it.both("DUNNO");
  it.after(seconds(9));
  it.both("DUNNO");
  BOOST_TEST(it.server.connections == 1);
  it.after(seconds(11));
  BOOST_TEST(it.server.open == 0);
  it.both("DUNNO");
  BOOST_TEST(it.server.connections == 2);
  for (int i = 0; i < 3; ++i) {
    it.after(seconds(9));
    it.both("DUNNO");
  }
  BOOST_TEST(it.server.connections == 3);
  Asking few("smtpd_policy_service_request_limit = 2\n");
  for (int i = 0; i < 5; ++i) few.both("DUNNO");
  BOOST_TEST(few.server.connections == 3);
}

BOOST_AUTO_TEST_CASE(a_connection_that_the_server_has_closed_is_not_used) {
  Asking it;
  it.both("DUNNO");
  it.server.die();
  it.rig.settle();
  it.server.start();
  BOOST_TEST(it.both("DUNNO") == kOk);  // without a failure in between
}

BOOST_AUTO_TEST_CASE(a_server_that_fails_is_tried_again_after_the_delay) {
  Asking it;
  it.server.answers = {"close", "DUNNO"};
  it.begin();
  BOOST_TEST(it.rcpt() == "");
  BOOST_TEST(it.after(milliseconds(900)) == "");
  BOOST_TEST(it.after(milliseconds(200)) == kOk);
  Asking slow("smtpd_policy_service_retry_delay = 5s\n");
  slow.server.answers = {"close", "DUNNO"};
  slow.begin();
  slow.rcpt();
  BOOST_TEST(slow.after(seconds(4)) == "");
  BOOST_TEST(slow.after(milliseconds(1100)) == kOk);
  for (const char* garbage : {"close", "nothing\n\n", "\n", "action=\xff\n\n"}) {
    it.server.answers = {garbage};
    it.begin();
    BOOST_TEST(it.rcpt() == "", garbage);
    BOOST_TEST(it.after(milliseconds(1100)) == kProblem, garbage);
  }
  it.server.answers = {std::string(20'000, 'a') + "=b\n\n"};
  it.begin();
  it.rcpt();
  BOOST_TEST(it.after(milliseconds(1100)) == kProblem);
}

BOOST_AUTO_TEST_CASE(the_default_action_counts_as_if_the_server_had_said_it) {
  Asking it("smtpd_policy_service_try_limit = 1\nsmtpd_policy_service_default_action = DUNNO\n");
  BOOST_TEST(it.both("close") == kOk);
  Asking own({}, "try_limit=1, { default_action = REJECT not now }");
  BOOST_TEST(own.both("close") == "554 5.7.1 <user@example.org>: Recipient address rejected: not now\r\n");
  Asking nested(
      "smtpd_policy_service_try_limit = 1\nsmtpd_policy_service_default_action = "
      "check_policy_service unix:/nonexistent\n");
  BOOST_TEST(nested.both("close") == "451 4.3.5 Server configuration problem\r\n");
}

BOOST_AUTO_TEST_CASE(a_dead_server_costs_one_connection_for_all_sessions) {
  Asking it;
  it.server.die();
  std::vector<std::unique_ptr<Beside>> others;
  for (int i = 0; i < 50; ++i) others.push_back(std::make_unique<Beside>(it.rig));
  it.begin();
  BOOST_TEST(it.rcpt() == "");
  for (auto& other : others) BOOST_TEST(other->say("RCPT TO:<user@example.org>\r\n") == "");
  // The server comes back in time: nobody has noticed.
  it.server.start();
  BOOST_TEST(it.after(milliseconds(1100)) == kOk);
  for (auto& other : others) BOOST_TEST(other->settle() == kOk);
  BOOST_TEST(it.server.asked.size() == 51);
  BOOST_TEST(it.rig.server.policies.status().front().contains("connections 51 of 52 tried"));
}

BOOST_AUTO_TEST_CASE(a_hanging_server_costs_one_time_out_and_recovers) {
  Asking it("smtpd_policy_service_timeout = 10s\n");
  it.server.answers = {"hang"};
  it.begin();
  BOOST_TEST(it.rcpt() == "");
  Beside early(it.rig);
  early.say("RCPT TO:<user@example.org>\r\n");
  it.after(milliseconds(10'100));      // both have waited
  it.after(milliseconds(1'100));       // one tries again, the other one waits for how that ends
  BOOST_TEST(it.server.hanging == 3);  // two of them are given up
  it.after(milliseconds(1'100));
  const auto asked = it.server.asked.size();
  Beside late(it.rig);
  BOOST_TEST(late.say("RCPT TO:<user@example.org>\r\n") == "");
  it.rig.clock.advance(milliseconds(1'100));
  BOOST_TEST(late.settle() == kProblem);
  BOOST_TEST(it.server.asked.size() == asked);
  it.server.answers = {"DUNNO"};
  it.server.let_go();
  it.rig.settle();
  late.say("RSET\r\nMAIL FROM:<s@remote.example>\r\n");
  BOOST_TEST(late.say("RCPT TO:<user@example.org>\r\n") == kOk);
}

BOOST_AUTO_TEST_CASE(a_server_that_hangs_is_down_though_it_takes_connections) {
  Asking it("smtpd_policy_service_timeout = 10s\nsmtpd_policy_service_try_limit = 1\n");
  it.server.answers = {"hang"};
  it.begin();
  BOOST_TEST(it.rcpt() == "");
  it.after(seconds(5));
  Beside later(it.rig);
  BOOST_TEST(later.say("RCPT TO:<user@example.org>\r\n") == "");
  BOOST_TEST(it.after(milliseconds(5'100)) == kProblem);
  Beside third(it.rig);
  BOOST_TEST(third.say("RCPT TO:<user@example.org>\r\n") == kProblem);
  BOOST_TEST(it.server.asked.size() == 2);
}

BOOST_AUTO_TEST_CASE(a_slow_answer_of_a_server_that_answers_others_does_not_put_it_down) {
  Asking it("smtpd_policy_service_timeout = 10s\nsmtpd_policy_service_try_limit = 1\n");
  it.server.answers = {"hang", "DUNNO"};
  it.begin();
  BOOST_TEST(it.rcpt() == "");
  it.after(seconds(5));
  Beside other(it.rig);
  BOOST_TEST(other.say("RCPT TO:<user@example.org>\r\n") == kOk);
  BOOST_TEST(it.after(milliseconds(5'100)) == kProblem);
  BOOST_TEST(other.say("RCPT TO:<root@example.org>\r\n") == kOk);
}

BOOST_AUTO_TEST_CASE(connections_are_bounded_and_others_wait_for_one) {
  Asking it;
  it.server.answers = {"hang"};
  std::vector<std::unique_ptr<Beside>> others;
  for (std::size_t i = 0; i < PolicyEndpoint::kConnections + 20; ++i) {
    others.push_back(std::make_unique<Beside>(it.rig));
    others.back()->say("RCPT TO:<user@example.org>\r\n");
  }
  BOOST_TEST(it.server.connections == PolicyEndpoint::kConnections);
  BOOST_TEST(it.server.asked.size() == PolicyEndpoint::kConnections);
  BOOST_TEST(it.rig.server.policies.status().front().contains("waiting 20"));
  it.server.let_go();
  for (auto& other : others) BOOST_TEST(other->settle() == kOk);
  BOOST_TEST(it.server.connections == PolicyEndpoint::kConnections);
}

BOOST_AUTO_TEST_CASE(a_session_that_ends_while_it_is_asked_about_leaves_nothing_behind) {
  Asking it;
  it.server.answers = {"hang"};
  it.begin();
  it.rcpt();
  {
    async::Gate& sessions = it.rig.sessions;
    BOOST_TEST(sessions.size() == 1);
  }
  it.server.answers = {"DUNNO"};
  it.server.let_go();
  it.rig.hang_up();
  BOOST_TEST(it.rig.closed());
  it.rig.connect();
  it.rig.say("EHLO client.example\r\n");
  BOOST_TEST(it.both("DUNNO") == kOk);
}

BOOST_AUTO_TEST_CASE(services_that_answers_name_are_kept_up_to_a_bound) {
  Asking it("smtpd_junk_command_limit = 1000\n");
  for (std::size_t i = 0; i < PolicyServers::kEndpoints + 20; ++i) {
    const std::string other = "{ unix:/nonexistent/" + std::to_string(i) + ", try_limit=1, default_action=OK }";
    BOOST_TEST(it.both("check_policy_service " + other) == kOk);
    it.rig.clock.advance(milliseconds(10));
  }
  BOOST_TEST(it.rig.server.policies.status().size() == PolicyServers::kEndpoints);
  BOOST_TEST(it.server.connections == 1);  // that service was always among the last ones
}

BOOST_AUTO_TEST_CASE(a_server_that_names_itself_without_end_is_an_error) {
  Asking it;
  std::string said = it.both("check_policy_service " + it.service());
  for (int i = 0; i < 100 && said.empty(); ++i) said = it.rig.settle();
  BOOST_TEST(said == "451 4.3.5 Server configuration error\r\n");
  BOOST_TEST(it.server.asked.size() <= 100);
}

BOOST_AUTO_TEST_SUITE_END()
