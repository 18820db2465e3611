// Settings about commands as such: what replaces them, what is passed over, what EHLO offers to which client.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(session_commands)

namespace {

struct Open : Rig {
  explicit Open(std::string main_cf = {}, std::string address = "192.0.2.7") : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    connect(std::move(address));
    greeting = say("EHLO client.example\r\n");
  }
  std::string greeting;
};

}  // namespace

BOOST_AUTO_TEST_CASE(smtpd_command_filter_replaces_commands_and_nothing_else) {
  Open rig(
      "smtpd_command_filter = regexp:{{/^RCPT +TO:<(.*)@(.*)> NOTIFY=.*/ RCPT TO:<$$1@$$2>} {/^HALLO(.*)/ NOOP$$1}}\n");
  BOOST_TEST(rig.say("HALLO there\r\n") == "250 2.0.0 Ok\r\n");
  BOOST_TEST(rig.say("  hallo\r\n") == "250 2.0.0 Ok\r\n");
  BOOST_TEST(rig.say("OTHER\r\n") == "500 5.5.2 Error: command not recognized\r\n");
  // The parameter would be refused.
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<user@example.org> NOTIFY=BOGUS\r\n"
                     "RCPT TO:<user@example.org> NOTIFY=BOGUS\r\n") ==
             "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n250 2.1.5 Ok\r\n");
  rig.say("DATA\r\n");
  BOOST_TEST(rig.say("Subject: x\r\n\r\nHALLO there\r\n.\r\n").starts_with("250"));
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  BOOST_TEST(rig.queue.stored[0].content.ends_with("HALLO there\r\n"));
}

BOOST_AUTO_TEST_CASE(a_command_filter_that_cannot_be_read_ends_the_session) {
  Rig rig("smtpd_command_filter = texthash:/nonexistent/filter\n");
  rig.connect();
  BOOST_TEST(rig.say("EHLO x\r\nNOOP\r\n") == "421 4.3.0 mx.example.org Server local data error\r\n");
  BOOST_TEST(rig.closed());
}

BOOST_AUTO_TEST_CASE(smtpd_noop_commands_come_before_all_others) {
  Open rig("smtpd_noop_commands = vrfy, xnothing\nsmtpd_junk_command_limit = 2\nsmtpd_hard_error_limit = 2\n");
  BOOST_TEST(rig.say("VRFY nobody\r\n") == "250 2.0.0 Ok\r\n");
  BOOST_TEST(rig.say("Xnothing\r\n") == "250 2.0.0 Ok\r\n");
  BOOST_TEST(rig.say("Xnothing\r\n").contains("421 4.7.0 mx.example.org Error: too many errors"));  // junk counts
}

BOOST_AUTO_TEST_CASE(smtpd_forbidden_commands_and_lines_of_a_header_end_the_session) {
  const std::string bye = "221 2.7.0 Error: I can break rules, too. Goodbye.\r\n";
  for (const std::string_view line : {"GET / HTTP/1.1\r\n", "Subject: x\r\n", "X-Foo:bar\r\n"}) {
    Open rig;
    BOOST_TEST(rig.say(line) == bye);
    BOOST_TEST(rig.closed());
  }
  Open none("smtpd_forbidden_commands =\n");
  BOOST_TEST(none.say("GET / HTTP/1.1\r\n:x\r\n") ==
             "500 5.5.2 Error: command not recognized\r\n500 5.5.2 Error: command not recognized\r\n");
  BOOST_TEST(none.say("Subject: x\r\n") == bye);
}

BOOST_AUTO_TEST_CASE(smtpd_discard_ehlo_keyword_address_maps_takes_the_place_of_the_list_for_one_client) {
  const std::string tables =
      "smtpd_discard_ehlo_keywords = dsn\n"
      "smtpd_discard_ehlo_keyword_address_maps = inline:{ {192.0.2.7 = chunking, silent-discard, size} {::1 = none} "
      "}\n";
  Open listed(tables);
  BOOST_TEST(listed.greeting ==
             "250-mx.example.org\r\n250-PIPELINING\r\n250-VRFY\r\n250-ENHANCEDSTATUSCODES\r\n250-8BITMIME\r\n"
             "250-DSN\r\n250-SMTPUTF8\r\n250 LIMITS RCPTMAX=1000\r\n");
  BOOST_TEST(listed.say("BDAT 0 LAST\r\n") == "502 5.5.1 Error: command not implemented\r\n");
  Open other(tables, "192.0.2.8");
  BOOST_TEST(other.greeting.contains("CHUNKING"));
  BOOST_TEST(!other.greeting.contains("DSN"));
  Open broken("smtpd_discard_ehlo_keywords = dsn\nsmtpd_discard_ehlo_keyword_address_maps = texthash:/nonexistent/x\n");
  BOOST_TEST(broken.greeting.contains("CHUNKING"));  // as if the table did not have the client
  BOOST_TEST(!broken.greeting.contains("DSN"));
  // What other settings withhold stays withheld.
  Open never("smtputf8_enable = no\nsmtpd_discard_ehlo_keyword_address_maps = static:dsn\n");
  BOOST_TEST(!never.greeting.contains("SMTPUTF8"));
}

BOOST_AUTO_TEST_SUITE_END()
