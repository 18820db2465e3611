#include "lib/mail/client_attributes.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/command.h"

using namespace pen;
using namespace pen::mail;

BOOST_AUTO_TEST_SUITE(client_attributes)

BOOST_AUTO_TEST_CASE(pairs_are_read_with_xtext_and_what_is_not_known) {
  using Kind = ClientAttribute::Kind;
  const auto a = parse_client_attributes("name=a+20b ADDR=IPV6:::1  HELO=[UNAVAILABLE] NAME=[tempunavail] PROTO=");
  BOOST_TEST_REQUIRE(a.has_value());
  BOOST_TEST_REQUIRE(a->size() == 5U);
  BOOST_TEST((*a)[0].name == "name");
  BOOST_TEST((*a)[0].value == "a b");
  BOOST_TEST((*a)[1].value == "IPV6:::1");
  BOOST_TEST(((*a)[2].kind == Kind::unavailable));
  BOOST_TEST(((*a)[3].kind == Kind::temporarily_unavailable));
  BOOST_TEST((*a)[4].value == "");
  for (const char* bad : {"", "NAME", "=x", "NAME=a ADDR"})
    BOOST_TEST(parse_client_attributes(bad).error().is(CommandError::syntax), bad);
  BOOST_TEST(parse_client_attributes("NAME=a+2").error().is(CommandError::bad_parameter));
  // Characters that would break a log line or a header field do not pass.
  BOOST_TEST(parse_client_attributes("HELO=x+0D+0Ay")->front().value.find('\r') == std::string::npos);
  std::string many;
  for (int i = 0; i < 33; ++i) many += "A=b ";
  BOOST_TEST(parse_client_attributes(many).error().is(CommandError::syntax));
}

BOOST_AUTO_TEST_CASE(addresses_are_numeric) {
  BOOST_TEST(client_address("192.0.2.1") == "192.0.2.1");
  BOOST_TEST(client_address("IPV6:2001:DB8::0:1") == "2001:db8::1");
  BOOST_TEST(client_address("2001:db8::1") == "2001:db8::1");
  for (const char* bad : {"", "localhost", "192.0.2", "IPV6:192.0.2.1", "192.0.2.1 x"})
    BOOST_TEST(client_address(bad) == "", bad);
}

BOOST_AUTO_TEST_CASE(what_is_told_is_what_the_peer_wants_to_know) {
  Client c;
  c.name = "mx.example";
  c.address = "2001:db8::1";
  c.port = 4711;
  c.helo = "a b";
  c.protocol = "ESMTPSA";  // of Received: alone
  const auto all = xforward_commands(xforward_offers(std::string(xforward::kAll)), c, "4bQ", false);
  const std::vector<std::string> expected{"XFORWARD NAME=mx.example ADDR=IPV6:2001:db8::1 PORT=4711\r\n",
                                          "XFORWARD PROTO=ESMTP HELO=a+20b IDENT=4bQ SOURCE=REMOTE\r\n"};
  BOOST_TEST(all == expected, boost::test_tools::per_element());
  const auto read = parse_client_attributes(std::string_view(all[0]).substr(9, all[0].size() - 11));
  BOOST_TEST(client_address((*read)[1].value) == c.address);
  BOOST_TEST(xforward_commands(xforward_offers("name nonsense"), c, "", false).front() ==
             "XFORWARD NAME=mx.example\r\n");
  BOOST_TEST(xforward_commands(0, c, "4bQ", false).empty());
  c = {};
  BOOST_TEST(xforward_commands(xforward_offers("ADDR PROTO SOURCE"), c, "", true).back() ==
             "XFORWARD PROTO=[UNAVAILABLE] SOURCE=LOCAL\r\n");
  c.name = c.helo = std::string(300, '(');
  for (const auto& line : xforward_commands(255, c, std::string(300, ' '), true)) BOOST_TEST(line.size() <= 512U);
}

BOOST_AUTO_TEST_SUITE_END()
