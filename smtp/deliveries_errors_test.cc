#include <boost/test/unit_test.hpp>

#include "lib/config/config.h"
#include "smtp/deliveries_fixture.h"
#include "smtp/rewritten.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;
using ipc::session_errors::Role;
using mail::ErrorClass;

namespace {

struct NoHost final : Connection::Host {
  void opened(Connection&, const Opened&, microseconds, microseconds) override {}
  void done(Connection&, const Work&, const JobDone&) override {}
  void closed(Connection&, const Ended&) override {}
  ipc::StagePage& stages() override { return page; }
  ipc::StagePage page;
};

/// What the postmaster learns of one connection to a host.
struct Told : DeliveriesFixture {
  Told() {
    const std::vector<std::string> words = {"data", "policy", "protocol", "resource", "software"};
    settings.told = *mail::parse_error_classes(words);
    settings.double_bounce = "double-bounce@me.example";
  }
  void start_telling() {
    start();
    deliveries->tell_postmaster([this](ipc::session_errors::Session s) { told.push_back(std::move(s)); });
  }
  /// Sends one message to a host that answers `command` with `answer`.
  void refused(const std::string& command, const std::string& answer) {
    told.clear();
    start_telling();
    Host host(loop, answering(command, answer));
    one_connection(host);
    deliveries.reset();
  }
  static PeerOptions answering(std::string command, std::string answer) {
    PeerOptions o;
    o.fault = [=](std::string_view c) { return c.starts_with(command) ? answer : ""; };
    return o;
  }
  /// Sends one message on a connection of its own.
  void one_connection(const Host& host) {
    closed.clear();
    results.clear();
    open(1, host.port);
    (void)job(1, "Subject: x\r\n\r\nprivate\r\n");
    BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{1}));
    until([&] { return closed.size() == 1 && deliveries->connections() == 0; });
  }
  bool is(ErrorClass one) const { return told.size() == 1 && told[0].classes == mail::ErrorClasses(one).bits(); }
  std::vector<ipc::session_errors::Session> told;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(smtp_deliveries_errors, Told)

BOOST_AUTO_TEST_CASE(replies_against_the_protocol_are_told_with_the_transcript) {
  refused("mail", "gibberish");
  BOOST_TEST(is(ErrorClass::protocol));
  BOOST_TEST((told.at(0).role == Role::smtp_client));
  BOOST_TEST(told.at(0).peer.starts_with("mx.example[127.0.0.1]"));
  BOOST_TEST(told.at(0).transcript.starts_with("In:  220 peer ESMTP\nOut: EHLO me.example\nIn:  250"));
  BOOST_TEST(told.at(0).transcript.find("In:  gibberish\n") != std::string::npos);
  BOOST_TEST(told.at(0).transcript.find("private") == std::string::npos);
  BOOST_TEST(told.at(0).reason.starts_with("protocol error: host mx.example[127.0.0.1] sent"));
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_command_is_told_and_one_of_the_mail_is_not) {
  for (const char* command : {"mail", "rcpt", "dot", "bdat"}) {
    BOOST_TEST_CONTEXT(command) {
      refused(command, "550 5.7.1 not this mail");
      BOOST_TEST(told.empty());
      refused(command, "450 4.7.1 later");
      BOOST_TEST(told.empty());
    }
  }
  refused("rcpt", "501 5.5.4 syntax");
  BOOST_TEST(is(ErrorClass::protocol));
  BOOST_TEST(told.at(0).reason.empty());
  refused("mail", "555 5.5.4 unknown parameter");
  BOOST_TEST(is(ErrorClass::protocol));
  refused("ehlo", "502 5.5.1 what is that");  // HELO follows
  BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_CASE(content_that_cannot_be_read_is_told) {
  start_telling();
  PeerOptions o;
  Host host(loop, o);
  open(1, host.port);
  (void)job(1, std::string(300000, 'x'), true, true);
  until([&] { return closed.size() == 1; });
  BOOST_TEST(is(ErrorClass::data));
  BOOST_TEST(told.at(0).transcript.find("Out: MAIL FROM:<a@x.example>") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_keeps_this_host_from_connecting_is_told) {
  start_telling();
  Host host(loop, {});
  policy.level = ipc::TlsLevel::encrypt;  // but the host has no TLS
  open(1, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST(is(ErrorClass::software));
  BOOST_TEST(told.at(0).transcript.empty());
  BOOST_TEST(told.at(0).reason.starts_with("TLS is required, but there is a client TLS"));
  told.clear();
  policy.level = ipc::TlsLevel::none;
  deliveries.reset();
  closed.clear();
  settings.bind_enforce = true;
  settings.bind_address = "192.0.2.1";  // no address of this host
  start_telling();
  open(1, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST(is(ErrorClass::resource));
  BOOST_TEST((closed[0].trouble == ipc::delivery::Trouble::local));
}

BOOST_AUTO_TEST_CASE(hosts_that_cannot_be_reached_from_here_are_not_told) {
  start_telling();
  ipc::delivery::OpenConnection o;
  o.destination.transport = "smtp";
  o.destination.host = "mx.example";
  // EINVAL (or no IPv6 here), EACCES or ENETUNREACH: nothing leaves this host.
  for (const char* address : {"fe80::1", "255.255.255.255"}) {
    closed.clear();
    ++o.connection;
    o.destination.address = address;
    o.destination.port = 25;
    BOOST_REQUIRE(hand(o));
    until([&] { return closed.size() == 1; });
    BOOST_TEST((closed[0].trouble != ipc::delivery::Trouble::local), closed[0].status.text);
  }
  BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_CASE(a_host_is_told_of_once_until_it_works_again) {
  start_telling();
  bool broken = true;
  PeerOptions o;
  o.fault = [&](std::string_view c) { return broken && c.starts_with("mail") ? "gibberish" : ""; };
  Host host(loop, o);
  for (int i = 0; i < 3; ++i) one_connection(host);
  BOOST_TEST(told.size() == 1u);
  broken = false;
  one_connection(host);
  broken = true;
  for (int i = 0; i < 3; ++i) one_connection(host);
  BOOST_TEST(told.size() == 2u);
  settings.bind_enforce = true;
  settings.bind_address = "192.0.2.1";  // and what comes before there is a session with the host
  told.clear();
  start_telling();
  for (int i = 0; i < 3; ++i) one_connection(host);
  BOOST_TEST(is(ErrorClass::resource));
}

BOOST_AUTO_TEST_CASE(nothing_is_kept_or_told_that_no_class_asks_for) {
  const std::vector<std::string> usual = {"resource", "software"};
  settings.told = *mail::parse_error_classes(usual);
  refused("mail", "gibberish");
  BOOST_TEST(told.empty());
  for (const bool asked : {false, true}) {
    if (asked) settings.told.add(ErrorClass::protocol);
    NoHost nobody;
    const Connection connection(loop, nobody, 1, {}, settings, nullptr);
    BOOST_TEST((connection.transcript() != nullptr) == asked);
  }
}

BOOST_AUTO_TEST_CASE(a_connection_that_carried_such_a_notice_makes_no_other) {
  settings.double_bounce = "A@x.example";  // the sender of job()
  for (const char* command : {"mail", "greeting", "ehlo"}) {
    refused(command, "gibberish");
    BOOST_TEST(told.empty(), command);
  }
  settings.bind_enforce = true;
  settings.bind_address = "192.0.2.1";
  refused("mail", "250 ok");
  BOOST_TEST(told.empty());
  settings.bind_address.clear();
  settings.double_bounce = "double-bounce@me.example";
  refused("mail", "gibberish");
  BOOST_TEST(told.size() == 1u);
  sender.clear();
  refused("mail", "gibberish");
  BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_CASE(a_notice_is_one_whatever_generic_maps_make_of_its_sender) {
  config::Surroundings surroundings;
  surroundings.hostname = "me.example";
  const auto config = config::Config::parse(
      {.directory = "/",
       .main_cf = "myhostname = me.example\nsmtp_generic_maps = inline:{a@x.example=ada@out.example}\n",
       .master_cf = {},
       .overrides = {}},
      surroundings);
  settings.rules = open_rules(config.settings(), false).value();
  refused("mail", "gibberish");
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].transcript.find("Out: MAIL FROM:<ada@out.example>") != std::string::npos);
  settings.double_bounce = "a@x.example";
  refused("mail", "gibberish");
  BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_SUITE_END()
