// Sessions behind a proxy that speaks the PROXY protocol: the client of the session, and what happens without a header.
#include <boost/test/unit_test.hpp>

#include "smtpd/limits_fixture.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

namespace {

const std::string kBehind = "smtpd_upstream_proxy_protocol = haproxy\nmynetworks = 192.0.2.0/24\n";
const std::string kHeader = "PROXY TCP4 192.0.2.9 198.51.100.1 40000 25\r\n";

/// A session by way of the proxy 203.0.113.1.
struct Proxied : Rig {
  explicit Proxied(const std::string& more = {}) : Rig(kBehind + more) { BOOST_TEST_REQUIRE(problem == ""); }
  std::string connect(std::string_view header) { return Rig::connect("203.0.113.1", header); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(session_proxied)

BOOST_AUTO_TEST_CASE(the_client_is_the_one_of_the_header_in_lists_and_trace_fields) {
  Proxied rig;
  BOOST_TEST(rig.connect(kHeader).starts_with("220 "));
  rig.say("EHLO x\r\n");
  // Only mynetworks may relay: the header's client is in it, the proxy is not.
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@elsewhere.example>\r\n") ==
             "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n");
  rig.say("DATA\r\n");
  BOOST_TEST(rig.say("Subject: x\r\n\r\n.\r\n").starts_with("250"));
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  BOOST_TEST(rig.queue.stored[0].envelope.client.address == "192.0.2.9");
  BOOST_TEST(rig.queue.stored[0].envelope.client.port == 40000);
  BOOST_TEST(rig.queue.stored[0].content.contains("(client.example [192.0.2.9])"));

  BOOST_TEST(rig.connect("PROXY TCP6 2001:db8::9 2001:db8::1 40000 25\r\n").starts_with("220 "));
  rig.say("EHLO x\r\n");
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@elsewhere.example>\r\n").contains("Relay access denied"));
}

BOOST_AUTO_TEST_CASE(the_session_ends_without_a_word_if_there_is_no_header) {
  for (const std::string_view header : {"EHLO x\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4 1.2.3.4\r\n"}) {
    Proxied rig;
    BOOST_TEST(rig.connect(header) == "");
    BOOST_TEST(rig.closed());
  }
  Proxied silent("smtpd_upstream_proxy_timeout = 3s\n");
  BOOST_TEST(silent.connect("") == "");
  silent.clock.advance(seconds(2));
  silent.settle();
  BOOST_TEST(!silent.closed());
  silent.clock.advance(seconds(2));
  BOOST_TEST(silent.settle() == "");
  BOOST_TEST(silent.closed());
}

BOOST_AUTO_TEST_CASE(a_client_that_the_header_hides_behind_talks_early_like_any_other) {
  Proxied rig;
  BOOST_TEST(rig.connect(kHeader + "EHLO x\r\n") == "554 5.5.0 Error: SMTP protocol synchronization\r\n");
}

BOOST_AUTO_TEST_CASE(a_proxy_that_speaks_for_itself_keeps_its_address) {
  Proxied rig;
  const std::string local("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16);
  BOOST_TEST(rig.connect(local).starts_with("220 "));
  rig.say("EHLO x\r\n");
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@elsewhere.example>\r\n").contains("Relay access denied"));
}

BOOST_AUTO_TEST_CASE(limits_count_the_client_of_the_header) {
  Proxied rig("smtpd_client_connection_rate_limit = 1\nsmtpd_client_event_limit_exceptions =\n");
  const auto counts = std::make_shared<pen::smtpd::testing::CountsHere>(rig.loop);
  rig.server.clients = counts;
  BOOST_TEST(rig.connect(kHeader).starts_with("220 "));
  BOOST_TEST(rig.connect(kHeader) == "421 4.7.0 mx.example.org Error: too many connections from 192.0.2.9\r\n");
  BOOST_TEST(rig.connect("PROXY TCP4 192.0.2.10 198.51.100.1 40000 25\r\n").starts_with("220 "));
}

BOOST_AUTO_TEST_CASE(with_tokens_a_header_s_address_brings_no_login_and_no_other_client) {
  const std::string lists = "smtpd_authorized_xclient_hosts = 192.0.2.9\nsmtpd_authorized_xforward_hosts = 192.0.2.9\n";
  for (const bool tokens : {true, false}) {
    Proxied rig(lists + (tokens ? "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = token\n" : ""));
    rig.connect(kHeader);
    BOOST_TEST(rig.say("EHLO x\r\n").contains("XCLIENT") == !tokens);
    BOOST_TEST(rig.say("XFORWARD ADDR=127.0.0.1 IDENT=x\r\n").starts_with(tokens ? "550 5.7.0" : "250"));
    BOOST_TEST(rig.say("XCLIENT LOGIN=boss\r\n").starts_with(tokens ? "550 5.7.0" : "220"));
  }
}

BOOST_AUTO_TEST_CASE(without_the_setting_a_header_is_no_command) {
  Rig rig;
  BOOST_TEST(rig.connect("192.0.2.7", kHeader) == "554 5.5.0 Error: SMTP protocol synchronization\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
