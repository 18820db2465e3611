#include "smtpd/rates.h"

#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

namespace pen::smtpd {
namespace {

using Event = Rates::Event;

BOOST_AUTO_TEST_SUITE(rates)

BOOST_AUTO_TEST_CASE(a_window_begins_with_the_first_event_and_ends_whatever_happened_since) {
  Rates r;
  r.set_unit(seconds(60));
  const SteadyTime start{seconds(1000)};
  BOOST_TEST(r.count(Event::message, "a", start) == 1u);
  BOOST_TEST(r.count(Event::message, "a", start + seconds(59)) == 2u);
  BOOST_TEST(r.count(Event::recipient, "a", start + seconds(59)) == 1u);
  BOOST_TEST(r.count(Event::message, "b", start + seconds(59)) == 1u);
  BOOST_TEST(r.count(Event::message, "a", start + seconds(60)) == 1u);
  BOOST_TEST(r.count(Event::message, "b", start + seconds(60)) == 2u);
  BOOST_TEST(r.clients() == 2u);
  r.count(Event::auth, "c", start + seconds(500));
  BOOST_TEST(r.clients() == 1u);
}

BOOST_AUTO_TEST_CASE(the_number_of_clients_is_bounded) {
  Rates r;
  const SteadyTime start{seconds(1000)};
  for (std::size_t i = 0; i < Rates::kMaxClients; ++i)
    r.count(Event::message, std::to_string(i), start);
  BOOST_TEST(r.count(Event::message, "one more", start) == 0u);
  BOOST_TEST(r.count(Event::message, "7", start) == 2u);
  BOOST_TEST(r.count(Event::message, "one more", start + seconds(60)) == 1u);
}

BOOST_AUTO_TEST_CASE(clients_are_counted_by_their_network) {
  BOOST_TEST(client_block("192.0.2.7", 32, 84) == "192.0.2.7");
  BOOST_TEST(client_block("192.0.2.7", 24, 84) == "192.0.2.0");
  BOOST_TEST(client_block("192.0.2.7", 30, 84) == "192.0.2.4");
  BOOST_TEST(client_block("192.0.2.7", 0, 84) == "0.0.0.0");
  BOOST_TEST(client_block("2001:db8::1", 32, 64) == client_block("2001:db8::ffff:2", 32, 64));
  BOOST_TEST(client_block("2001:db8::1", 32, 128) != client_block("2001:db8::2", 32, 128));
  BOOST_TEST(client_block("2001:db8:0:0:0:0fff::1", 32, 84) ==
             client_block("2001:db8:0:0:0:0000::1", 32, 84));
  BOOST_TEST(client_block("2001:db8:0:0:0:1000::1", 32, 84) !=
             client_block("2001:db8:0:0:0:0000::1", 32, 84));
  BOOST_TEST(client_block("unknown", 32, 84) == "unknown");
}

/// The reply to each line of a session from that address.
std::string codes(testing::Rig& rig, const std::string& address,
                  std::initializer_list<const char*> lines) {
  std::string out = rig.connect(address).substr(0, 3);
  for (const char* line : lines) out += " " + rig.say(std::string(line) + "\r\n").substr(0, 3);
  return out;
}

BOOST_AUTO_TEST_CASE(who_does_too_much_is_told_to_come_later) {
  const char* mail = "MAIL FROM:<a@x.example>";
  const char* rcpt = "RCPT TO:<user@example.org>";
  testing::Rig connections("smtpd_client_connection_rate_limit = 2\n");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "421");
  BOOST_TEST(codes(connections, "192.0.2.8", {}) == "220");
  BOOST_TEST(codes(connections, "127.0.0.1", {}) + codes(connections, "127.0.0.1", {}) +
                 codes(connections, "127.0.0.1", {}) ==
             "220220220");  // smtpd_client_event_limit_exceptions
  connections.clock.advance(seconds(60));
  BOOST_TEST(codes(connections, "192.0.2.7", {}) == "220");

  testing::Rig messages(
      "smtpd_client_message_rate_limit = 2\nsmtpd_client_ipv4_prefix_length = 24\n");
  BOOST_TEST(codes(messages, "192.0.2.7", {mail, "RSET", mail, "RSET", mail}) ==
             "220 250 250 250 250 450");
  BOOST_TEST(codes(messages, "192.0.2.8", {mail}) == "220 450");
  BOOST_TEST(codes(messages, "192.0.3.8", {mail}) == "220 250");

  testing::Rig recipients("smtpd_client_recipient_rate_limit = 2\nanvil_rate_time_unit = 10s\n");
  BOOST_TEST(codes(recipients, "192.0.2.7", {mail, rcpt, rcpt, rcpt}) == "220 250 250 250 450");
  recipients.clock.advance(seconds(10));
  BOOST_TEST(codes(recipients, "192.0.2.7", {mail, rcpt}) == "220 250 250");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::smtpd
