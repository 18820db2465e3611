#include "smtpd/limits_fixture.h"

#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

namespace pen::smtpd {
namespace {

BOOST_AUTO_TEST_SUITE(limits_of_clients)

struct Limited : testing::Rig {
  explicit Limited(std::string main_cf, milliseconds unit = seconds(60))
      : Rig(std::move(main_cf)), counts(std::make_shared<testing::CountsHere>(loop, unit)) {
    server.clients = counts;
  }
  ~Limited() { hang_up(); }
  std::shared_ptr<testing::CountsHere> counts;
};

/// The codes of the replies to each line of a session from that address.
std::string codes(Limited& rig, const std::string& address, std::initializer_list<const char*> lines) {
  std::string out = rig.connect(address).substr(0, 3);
  for (const char* line : lines) out += " " + rig.say(std::string(line) + "\r\n").substr(0, 3);
  return out;
}

BOOST_AUTO_TEST_CASE(who_does_too_much_is_told_to_come_later) {
  const char* mail = "MAIL FROM:<a@x.example>";
  const char* rcpt = "RCPT TO:<user@example.org>";
  Limited connections("smtpd_client_connection_rate_limit = 2\n");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "421");
  BOOST_TEST(codes(connections, "192.0.2.8", {}) == "220");
  BOOST_TEST(codes(connections, "127.0.0.1", {}) + codes(connections, "127.0.0.1", {}) +
                 codes(connections, "127.0.0.1", {}) ==
             "220220220");  // smtpd_client_event_limit_exceptions
  connections.clock.advance(seconds(60));
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");

  Limited messages("smtpd_client_message_rate_limit = 2\nsmtpd_client_ipv4_prefix_length = 24\n");
  BOOST_TEST(codes(messages, "192.0.2.7", {mail, "RSET", mail, "RSET", mail}) == "220 250 250 250 250 450");
  BOOST_TEST(codes(messages, "192.0.2.8", {mail}) == "220 450");
  BOOST_TEST(codes(messages, "192.0.3.8", {mail}) == "220 250");

  Limited recipients("smtpd_client_recipient_rate_limit = 2\n", seconds(10));
  BOOST_TEST(codes(recipients, "192.0.2.7", {mail, rcpt, rcpt, rcpt}) == "220 250 250 250 450");
  recipients.clock.advance(seconds(10));
  BOOST_TEST(codes(recipients, "192.0.2.7", {mail, rcpt}) == "220 250 250");
}

BOOST_AUTO_TEST_CASE(addresses_of_one_prefix_are_one_client) {
  for (const auto& [prefix, second] : std::vector<std::pair<std::string, std::string>>{{"64", "421"}, {"128", "220"}}) {
    Limited rig("smtpd_client_connection_rate_limit = 1\nsmtpd_client_ipv6_prefix_length = " + prefix + "\n");
    BOOST_TEST(codes(rig, "2001:db8::1", {}) == "220");
    BOOST_TEST(codes(rig, "2001:db8::2", {}) == second, prefix);
    BOOST_TEST(codes(rig, "2001:db8:1::1", {}) == "220");
  }
}

BOOST_AUTO_TEST_CASE(one_client_cannot_take_all_sessions) {
  Limited rig("smtpd_client_connection_count_limit = 2\n");
  using Place = sessions::ClientCounts::Place;
  const Place one(rig.counts, "smtp:192.0.2.7"), two(rig.counts, "smtp:192.0.2.7");
  BOOST_TEST(codes(rig, "192.0.2.7", {}) == "421");
  BOOST_TEST(codes(rig, "192.0.2.8", {}) == "220");
  rig.server.service = "submission";  // has counts of its own
  BOOST_TEST(codes(rig, "192.0.2.7", {}) == "220");
  const Place three(rig.counts, "submission:127.0.0.1"), four(rig.counts, "submission:127.0.0.1");
  BOOST_TEST(codes(rig, "127.0.0.1", {}) == "220");  // smtpd_client_event_limit_exceptions
}

BOOST_AUTO_TEST_CASE(a_session_that_has_ended_counts_no_more) {
  Limited rig("smtpd_client_connection_count_limit = 1\n");
  BOOST_TEST(codes(rig, "192.0.2.7", {}) == "220");
  BOOST_TEST(codes(rig, "192.0.2.7", {}) == "220");
}

BOOST_AUTO_TEST_CASE(by_xclient_a_proxy_is_not_limited_and_each_client_behind_it_is) {
  const char* mail = "MAIL FROM:<a@x.example>";
  const char *one = "XCLIENT ADDR=198.51.100.1", *two = "XCLIENT ADDR=198.51.100.2";
  Limited rig("smtpd_authorized_xclient_hosts = 192.0.2.7\nsmtpd_client_message_rate_limit = 1\n");
  BOOST_TEST(codes(rig, "192.0.2.7", {mail, "RSET", mail}) == "220 250 250 250");
  BOOST_TEST(codes(rig, "192.0.2.7", {one, mail}) == "220 220 250");
  BOOST_TEST(codes(rig, "192.0.2.7", {two, mail}) == "220 220 250");
  BOOST_TEST(codes(rig, "192.0.2.7", {one, mail}) == "220 220 450");
  BOOST_TEST(codes(rig, "198.51.100.1", {mail}) == "220 450");
  Limited connections("smtpd_authorized_xclient_hosts = 192.0.2.7\nsmtpd_client_connection_rate_limit = 1\n");
  BOOST_TEST(codes(connections, "192.0.2.7", {one}) == "220 220");
  BOOST_TEST(codes(connections, "192.0.2.7", {two}) == "220 220");
  BOOST_TEST(codes(connections, "192.0.2.7", {one}) == "220 421");
}

BOOST_AUTO_TEST_CASE(nothing_is_asked_where_nothing_is_limited) {
  const char* mail = "MAIL FROM:<a@x.example>";
  const char* rcpt = "RCPT TO:<user@example.org>";
  Limited by_default("");
  BOOST_TEST(codes(by_default, "192.0.2.7", {mail, rcpt}) == "220 250 250");
  BOOST_TEST(by_default.counts->asked == 1u);  // for smtpd_client_connection_count_limit
  BOOST_TEST(codes(by_default, "127.0.0.1", {mail, rcpt}) == "220 250 250");
  BOOST_TEST(by_default.counts->asked == 1u);
  Limited none("smtpd_client_connection_count_limit = 0\n");
  BOOST_TEST(codes(none, "192.0.2.7", {mail, rcpt}) == "220 250 250");
  BOOST_TEST(none.counts->asked == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::smtpd
