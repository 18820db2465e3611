/// TLS of whole sessions over sockets: what arrives, what is refused, and handshakes that are abandoned.
#include <boost/test/unit_test.hpp>

#include <fstream>

#include "lib/map/map.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/scratch.h"
#include "smtp/deliveries_fixture.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;
using ipc::TlsLevel;
using mail::Action;

namespace {

struct TlsFixture : DeliveriesFixture {
  pen::testing::ScratchDir scratch;
  tls::testing::Authority ca{"Test CA"}, other{"Other CA"};
  std::shared_ptr<tls::TicketKeys> tickets = std::make_shared<tls::TicketKeys>("", seconds(3600), system_clock());
  PeerOptions offers;
  int files = 0;

  TlsFixture() {
    offers.starttls = true;
    settings.tls.ca_file = write(ca.certificate());
    settings.starttls_timeout = seconds(20);
  }
  std::string write(const std::string& text) {
    const std::string path = scratch.path() / ("file" + std::to_string(++files));
    std::ofstream(path) << text;
    return path;
  }
  std::shared_ptr<const tls::Context> server(tls::testing::Authority& by, const std::string& name = "mx.example") {
    const auto issued = by.issue({.common_name = name, .names = {name}});
    tls::ContextOptions o;
    o.pairs = {{write(issued.certificate), write(issued.key)}};
    o.tickets = tickets;
    auto context = tls::Context::open(std::move(o));
    BOOST_REQUIRE(context.has_value());
    return *context;
  }
  void start_with(TlsLevel level, std::vector<std::string> match = {}) {
    client_tls = std::make_unique<ClientTls>(settings.tls, loop.clock());
    policy.level = level;
    policy.match = std::move(match);
    start();
  }
  void stop() {
    deliveries.reset();
    results.clear();
    closed.clear();
    opened.clear();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(smtp_deliveries_tls, TlsFixture)

BOOST_AUTO_TEST_CASE(messages_inline_and_from_a_file_arrive_byte_for_byte_over_tls) {
  std::string large;
  while (large.size() < 500'000) large += ".a line of text\r\n";
  for (const bool chunking : {false, true}) {
    offers.chunking = chunking;
    start_with(TlsLevel::secure, {"mx.example"});
    Host host(loop, offers);
    host.tls = server(ca);
    open(1, host.port);
    const std::vector<std::string> bodies{"a\r\n", large, ".\r\n..\r\n", large, "end\r\n"};
    std::vector<std::uint64_t> ids;
    for (const auto& body : bodies) ids.push_back(job(1, body, body.size() > 1000));
    until([&] { return results.size() == bodies.size(); });
    BOOST_REQUIRE(host.peers.at(0)->ledger().size() == bodies.size());
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      BOOST_TEST((status(ids[i]).action == Action::delivered));
      BOOST_TEST((host.peers[0]->ledger()[i].content == bodies[i]), "content of message " << i);
    }
    BOOST_TEST(opened.at(0).features.starttls);
    BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{1}));
    until([&] { return closed.size() == 1 && host.ended == 1 && deliveries->connections() == 0; });
    BOOST_TEST(host.peers[0]->quit());
    BOOST_TEST((closed[0].trouble == Trouble::none));
    stop();
  }
}

BOOST_AUTO_TEST_CASE(each_level_takes_what_it_asks_for_and_nothing_less) {
  struct Case {
    TlsLevel level;
    std::vector<std::string> match;
    bool by_ca;
    std::string name;
    bool sent;
  };
  const Case cases[] = {
      {TlsLevel::may, {}, false, "x.example", true},
      {TlsLevel::encrypt, {}, false, "x.example", true},
      {TlsLevel::verify, {"mx.example"}, true, "mx.example", true},
      {TlsLevel::verify, {"mx.example"}, true, "x.example", false},
      {TlsLevel::verify, {"mx.example"}, false, "mx.example", false},
      {TlsLevel::secure, {".example"}, true, "mx.example", true},
      {TlsLevel::secure, {".other.example", "example"}, true, "mx.example", false},
      {TlsLevel::secure, {}, true, "mx.example", false},
      {TlsLevel::fingerprint, {"00:11"}, true, "mx.example", false},
      {TlsLevel::fingerprint, {}, true, "mx.example", false},
      {TlsLevel::dane, {}, true, "mx.example", false},
      {TlsLevel::dane_only, {"mx.example"}, true, "mx.example", false},
  };
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT("level " << static_cast<int>(c.level) << " " << c.name << " " << c.by_ca) {
      Host host(loop, offers);
      host.tls = server(c.by_ca ? ca : other, c.name);
      start_with(c.level, c.match);
      open(1, host.port);
      const auto id = job(1, "x\r\n");
      until([&] { return results.size() + closed.size() >= 1; });
      BOOST_TEST((host.peers.at(0)->ledger().size() == 1) == c.sent);
      if (!c.sent) {
        BOOST_TEST(!closed.at(0).opened);
        BOOST_TEST((closed[0].trouble == Trouble::tls));
        BOOST_TEST(closed[0].status.dsn == "4.7.5");
        BOOST_TEST(closed[0].status.text.starts_with("Server certificate not "));
        BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{id}, boost::test_tools::per_element());
        // A peer with TLS that was not good enough has seen only these commands.
        BOOST_TEST(host.peers[0]->commands() == (std::vector<std::string>{"EHLO me.example", "STARTTLS"}),
                   boost::test_tools::per_element());
      }
      stop();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fingerprint_may_be_of_the_certificate_or_of_its_key) {
  ipc::Destination to;
  to.tls.level = TlsLevel::fingerprint;
  to.tls.match = {"AA:01", "BB:02"};
  tls::SessionInfo info;
  info.peer_certificate = true;
  info.fingerprint = "AA:01";
  info.key_fingerprint = "CC:03";
  BOOST_TEST(!refusal(to, info));
  info.fingerprint = "CC:03";
  BOOST_TEST(refusal(to, info).has_value());
  info.key_fingerprint = "BB:02";
  BOOST_TEST(!refusal(to, info));
  info.fingerprint = info.key_fingerprint = "";
  to.tls.match = {""};
  BOOST_TEST(refusal(to, info).has_value());
}

BOOST_AUTO_TEST_CASE(the_next_connection_resumes_the_session_and_another_policy_does_not) {
  start_with(TlsLevel::encrypt);
  Host host(loop, offers);
  host.tls = server(ca);
  const auto deliver = [&](std::uint64_t id) {
    open(id, host.port);
    const auto known = results.size();
    job(id, "x\r\n");
    until([&] { return results.size() == known + 1; });
    BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{id}));
    until([&] { return deliveries->connections() == 0; });
    return host.handshakes.back()->resumed;
  };
  BOOST_TEST(!deliver(1));
  BOOST_TEST(deliver(2));
  policy.level = TlsLevel::verify;
  policy.match = {"mx.example"};
  BOOST_TEST(!deliver(3));
  BOOST_TEST(deliver(4));
}

BOOST_AUTO_TEST_CASE(where_tls_may_be_left_out_a_broken_one_is_done_without_from_then_on) {
  start_with(TlsLevel::may);
  policy.protocols = "TLSv1.2";
  tls::ContextOptions only_13;
  const auto issued = ca.issue({.common_name = "mx.example", .names = {"mx.example"}});
  only_13.pairs = {{write(issued.certificate), write(issued.key)}};
  only_13.protocols = *tls::Protocols::parse(">=TLSv1.3");
  Host host(loop, offers);
  host.tls = *tls::Context::open(std::move(only_13));
  open(1, host.port);
  const auto first = job(1, "x\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::tls));
  BOOST_TEST(closed[0].status.text.starts_with("Cannot start TLS with host mx.example[127.0.0.1]"));
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{first}, boost::test_tools::per_element());
  open(2, host.port);
  job(2, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST(!host.peers.at(1)->encrypted());
  // It is not if a password follows, nor if qmgr has no plan and the level insists.
  policy.level = TlsLevel::encrypt;
  open(3, host.port, true);
  job(3, "x\r\n");
  until([&] { return closed.size() == 2; });
  BOOST_TEST(closed[1].status.text.starts_with("TLS is required, but cannot be started"));
  BOOST_TEST(host.peers.at(2)->ledger().empty());
}

BOOST_AUTO_TEST_CASE(what_qmgr_knows_to_be_broken_is_not_tried) {
  start_with(TlsLevel::may);
  Host host(loop, offers);
  host.tls = server(ca);
  open(1, host.port, true);
  job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST(!host.peers.at(0)->encrypted());
}

BOOST_AUTO_TEST_CASE(a_handshake_that_never_ends_is_bounded) {
  for (const TlsLevel level : {TlsLevel::may, TlsLevel::encrypt}) {
    settings.starttls_timeout = milliseconds(200);
    start_with(level);
    Host host(loop, offers);
    host.tls = server(ca);
    host.shakes_hands = false;
    open(1, host.port);
    job(1, "x\r\n");
    until([&] { return closed.size() == 1; });
    BOOST_TEST((closed[0].trouble == Trouble::tls));
    BOOST_TEST(closed[0].status.text.find("handshake failure") != std::string::npos);
    BOOST_TEST(closed[0].unstarted.size() == 1u);
    stop();
  }
}

BOOST_AUTO_TEST_CASE(a_connection_without_work_is_given_up_in_the_handshake_and_a_session_ends_in_it) {
  start_with(TlsLevel::encrypt);
  Host host(loop, offers);
  host.tls = server(ca);
  host.shakes_hands = false;
  open(1, host.port);
  until([&] { return host.peers.size() == 1 && host.peers[0]->encrypted(); });
  for (int i = 0; i < 3; ++i) loop.run_once(milliseconds(1));
  BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{1}));
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::none));
  open(2, host.port);
  job(2, "x\r\n");
  until([&] { return host.peers.size() == 2 && host.peers[1]->encrypted(); });
  for (int i = 0; i < 3; ++i) loop.run_once(milliseconds(1));
  deliveries.reset();
  until([&] { return host.ended == 2; });
  BOOST_TEST(results.empty());
}

BOOST_AUTO_TEST_CASE(files_of_ours_that_are_broken_stop_what_needs_tls_and_are_taken_when_mended) {
  settings.tls.cert_file = settings.tls.key_file = scratch.path() / "own.pem";
  start_with(TlsLevel::encrypt);
  Host host(loop, offers);
  host.tls = server(ca);
  open(1, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::local));
  BOOST_TEST(closed[0].status.dsn == "4.7.5");
  BOOST_TEST(closed[0].status.text.find("own.pem") != std::string::npos);
  BOOST_TEST(host.peers.empty());
  const auto own = ca.issue({.common_name = "me.example", .names = {}});
  std::ofstream(settings.tls.cert_file) << own.key << own.certificate;
  open(2, host.port);
  job(2, "x\r\n");
  until([&] { return results.size() == 1; });
  // Broken again: the certificate that was loaded stays.
  std::ofstream(settings.tls.cert_file) << "not a certificate, and of another length";
  open(3, host.port);
  job(3, "x\r\n");
  until([&] { return results.size() == 2; });
  BOOST_TEST(host.peers.at(1)->encrypted());
}

BOOST_AUTO_TEST_CASE(suites_without_a_certificate_are_offered_only_where_none_is_looked_at) {
  ClientTls tls(settings.tls, loop.clock());
  for (const auto level :
       {TlsLevel::may, TlsLevel::encrypt, TlsLevel::fingerprint, TlsLevel::verify, TlsLevel::secure, TlsLevel::dane}) {
    ipc::Destination d;
    d.tls.level = level;
    if (level == TlsLevel::dane) d.tls.tlsa = {"3 1 1 " + std::string(64, 'a')};
    const auto plan = tls.plan(d);
    BOOST_REQUIRE(plan.has_value());
    BOOST_TEST((plan->options.ciphers.find("!aNULL") != std::string::npos) == (level > TlsLevel::encrypt));
  }
}

BOOST_AUTO_TEST_CASE(smtp_tls_loglevel_maps_decide_by_the_server) {
  for (const auto& [tables, logged] : {std::pair("inline:{ mx.example=1 }", true),
                                       {"inline:{ 127.0.0=1 }", true},
                                       {"inline:{ mx.example=0, 127.0.0.1=1 }", false},
                                       {"inline:{ other.example=1 }", false}}) {
    const std::string path = scratch.file("log");
    std::ofstream(path, std::ios::trunc).close();
    BOOST_REQUIRE(log::open({.program = "smtp", .hostname = {}, .target = log::Target::file, .path = path}));
    auto maps = map::MapList::open(tables);
    BOOST_REQUIRE(maps.has_value());
    settings.tls_loglevels = std::make_shared<const map::MapList>(*std::move(maps));
    start_with(TlsLevel::encrypt);
    Host host(loop, offers);
    host.tls = server(ca);
    open(1, host.port);
    job(1, "x\r\n");
    until([&] { return results.size() == 1; });
    std::ifstream log(path);
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    BOOST_TEST(text.contains("TLS connection established to mx.example[127.0.0.1]") == logged, tables);
    stop();
  }
}

BOOST_AUTO_TEST_CASE(tls_that_the_configuration_of_openssl_forbids_is_not_to_be_had) {
  settings.tls.unusable = "tls_config_file = /none: no such file";
  start_with(TlsLevel::encrypt);
  Host host(loop, offers);
  open(1, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST(closed[0].status.dsn == "4.7.5");
  BOOST_TEST(closed[0].status.text.contains("tls_config_file = /none"));
  BOOST_TEST(client_tls->problems().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
