// Clients at a port of postscreen: what they get to hear, and what is kept of them.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;
using triage::Test;

namespace {

const std::string kTeaser = "220-mx.example.org ESMTP Penstock\r\n";
const std::string kGreeting = "220 mx.example.org ESMTP Penstock\r\n";
const std::string kClient = "192.0.2.7";
const std::string kMail = "MAIL FROM:<s@remote.example>\r\n";
const std::string kRcpt = "RCPT TO:<user@example.org>\r\n";
const std::string kContent = "DATA\r\nSubject: x\r\n\r\nbody\r\n.\r\n";  // for HELO and settings that allow it
const std::string kLists =
    "postscreen_dnsbl_sites = rbl.example=127.0.0.[2..9]*2, rbl.example=127.0.0.10, wl.example*-4\n"
    "postscreen_dnsbl_threshold = 2\n";
const std::string kTestsOfSessions =
    "postscreen_pipelining_enable = yes\npostscreen_non_smtp_command_enable = yes\n"
    "postscreen_bare_newline_enable = yes\nsmtpd_forbid_unauth_pipelining = no\nsmtpd_forbid_bare_newline = no\n";

/// The codes of the replies, last lines only.
std::string codes(std::string_view replies) {
  std::string out;
  while (!replies.empty()) {
    const auto end = replies.find("\r\n");
    BOOST_TEST_REQUIRE(end != std::string_view::npos);
    if (replies[3] == ' ') out += (out.empty() ? "" : " ") + std::string(replies.substr(0, 3));
    replies.remove_prefix(end + 2);
  }
  return out;
}

struct Port : Rig {
  explicit Port(const std::string& main_cf = {}, std::size_t places = 100) : Rig(main_cf) {
    BOOST_TEST_REQUIRE(problem == "");
    auto opened = Screening::open(*config, *policy);
    BOOST_TEST_REQUIRE(opened.has_value());
    for (const auto& warning : (*opened)->warnings) BOOST_TEST_MESSAGE(warning);
    server.screener = std::make_shared<Screener>(loop, *opened, places);
  }

  std::string after(std::chrono::nanoseconds time) {
    clock.advance(time);
    return settle();
  }
  /// Waits until the greeting, as a patient client.
  std::string greeted(const std::string& address = kClient) {
    std::string said = connect(address);
    if (!said.ends_with(kGreeting)) said += after(seconds(7));
    return said;
  }
  std::optional<triage::Record> kept(const std::string& address = kClient) {
    return server.screener->cache().find(address);
  }
  /// From now on.
  std::int64_t holds(Test test, const std::string& address = kClient) {
    const auto record = kept(address);
    return record ? record->of(test) - unix_seconds(clock.wall_now()) : -1;
  }
  void list(const std::string& reversed_name, std::vector<std::string> addresses) {
    names.dns["A " + reversed_name] = std::move(addresses);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(screening)

BOOST_AUTO_TEST_CASE(an_unknown_client_waits_for_its_greeting_and_a_known_one_does_not) {
  Port port;
  BOOST_TEST(port.connect() == kTeaser);
  BOOST_TEST(port.after(milliseconds(5900)) == "");
  BOOST_TEST(port.after(milliseconds(200)) == kGreeting);
  BOOST_TEST(codes(port.say("EHLO x\r\n")) == "250");
  BOOST_TEST(codes(port.say(kMail + kRcpt + "DATA\r\n")) == "250 250 354");
  BOOST_TEST(codes(port.say("Subject: x\r\n\r\nbody\r\n.\r\nQUIT\r\n")) == "250 221");
  BOOST_TEST(port.queue.stored.size() == 1U);
  BOOST_TEST(port.holds(Test::pregreet) == 86400);
  BOOST_TEST(port.kept()->of(Test::dnsbl) == triage::Record::kDisabled);

  BOOST_TEST(port.connect() == kGreeting);
  BOOST_TEST(port.connect("192.0.2.8") == kTeaser);  // somebody else
  port.clock.advance(seconds(86401));
  BOOST_TEST(port.connect() == kTeaser);
}

BOOST_AUTO_TEST_CASE(waits_and_texts_are_those_of_the_settings) {
  Port port("postscreen_greet_wait = 3s\npostscreen_greet_banner = wait\npostscreen_greet_ttl = 2h\n");
  BOOST_TEST(port.connect() == "220-wait\r\n");
  BOOST_TEST(port.after(milliseconds(3100)) == kGreeting);
  BOOST_TEST(port.holds(Test::pregreet) == 7200);
  Port silent("postscreen_greet_banner =\n");
  BOOST_TEST(silent.connect() == "");
  BOOST_TEST(silent.after(seconds(7)) == kGreeting);
}

BOOST_AUTO_TEST_CASE(who_talks_too_early_is_dropped_refused_or_only_logged) {
  Port drop("postscreen_greet_action = drop\n");
  BOOST_TEST(drop.connect(kClient, "EHLO x\r\n") == kTeaser + "521 5.5.1 Protocol error\r\n");
  BOOST_TEST(drop.closed());
  BOOST_TEST(!drop.kept().has_value());
  BOOST_TEST(drop.server.screener->seats() == 0U);
  BOOST_TEST(drop.connect() == kTeaser);
  BOOST_TEST(drop.say("EHLO x\r\n") == "521 5.5.1 Protocol error\r\n");

  Port enforce("postscreen_greet_action = enforce\n");
  BOOST_TEST(enforce.connect(kClient, "HELO x\r\n") == kTeaser + kGreeting + "250 mx.example.org\r\n");
  BOOST_TEST(enforce.say(kMail + kRcpt + "DATA\r\nQUIT\r\n") ==
             "250 2.1.0 Ok\r\n550 5.5.1 Protocol error\r\n554 5.5.1 Error: no valid recipients\r\n");
  BOOST_TEST(enforce.closed());
  BOOST_TEST(enforce.server.transactions == 0U);
  BOOST_TEST(!enforce.kept().has_value());

  Port ignore("smtpd_forbid_unauth_pipelining = no\n");
  BOOST_TEST(codes(ignore.connect(kClient, "HELO x\r\n")) == "220 250");
  BOOST_TEST(codes(ignore.say(kMail + kRcpt + kContent)) == "250 250 354 250");
  BOOST_TEST(!ignore.kept().has_value());  // tested again next time
}

BOOST_AUTO_TEST_CASE(who_hangs_up_leaves_nothing) {
  Port port;
  BOOST_TEST(port.connect() == kTeaser);
  BOOST_TEST(port.server.screener->seats() == 1U);
  port.hang_up();
  BOOST_TEST(port.server.screener->seats() == 0U);
  BOOST_TEST(port.server.counts.live == 0U);
  BOOST_TEST(!port.kept().has_value());
}

BOOST_AUTO_TEST_CASE(a_listed_client_is_told_by_which_list_as_soon_as_all_have_answered) {
  Port port(kLists +
            "postscreen_dnsbl_action = drop\n"
            "postscreen_dnsbl_reply_map = inline:{ { rbl.example = the.list } }\n");
  port.list("7.2.0.192.rbl.example", {"127.0.0.2"});
  BOOST_TEST(port.connect() ==
             kTeaser + "521 5.7.1 Service unavailable; client [192.0.2.7] blocked using the.list\r\n");
  BOOST_TEST(port.closed());
  BOOST_TEST(!port.kept().has_value());
  BOOST_TEST(port.names.asked.size() == 2U);  // one question for each list, whatever its filters
}

BOOST_AUTO_TEST_CASE(weights_of_lists_are_added) {
  struct Row {
    std::vector<std::string> rbl, wl;
    bool refused;
  };
  const std::vector<Row> rows = {
      {{"127.0.0.2"}, {}, true},                             // 2
      {{"127.0.0.10"}, {}, false},                           // 1
      {{"127.0.0.2", "127.0.0.10"}, {}, true},               // 3
      {{"127.0.0.2", "127.0.0.10"}, {"127.0.5.1"}, false},   // -1
      {{"127.255.255.254"}, {}, false},                      // the list refuses the question
      {{"127.0.0.2", "127.0.0.10"}, {"127.0.0.255"}, true},  // dnswl.org beyond its limit allows nobody
      {{"192.0.2.80"}, {}, false},
      {{}, {}, false},
  };
  for (const Row& row : rows) {
    Port port(kLists + "postscreen_dnsbl_action = enforce\n");
    if (!row.rbl.empty()) port.list("7.2.0.192.rbl.example", row.rbl);
    if (!row.wl.empty()) port.list("7.2.0.192.wl.example", row.wl);
    port.greeted();
    port.say("EHLO x\r\n");
    port.say(kMail);
    BOOST_TEST(port.say(kRcpt) ==
               (row.refused ? "550 5.7.1 Service unavailable; client [192.0.2.7] blocked using rbl.example\r\n"
                            : "250 2.1.5 Ok\r\n"));
    BOOST_TEST(port.kept().has_value() == !row.refused);
  }
}

BOOST_AUTO_TEST_CASE(a_list_of_the_good_ends_the_wait) {
  Port port(kLists + kTestsOfSessions + "postscreen_dnsbl_allowlist_threshold = -3\n");
  port.list("7.2.0.192.wl.example", {"127.0.5.1"});
  BOOST_TEST(port.connect() == kTeaser + kGreeting);
  BOOST_TEST(port.holds(Test::pregreet) == 60);  // as long as the answers, at least postscreen_dnsbl_min_ttl
  BOOST_TEST(port.holds(Test::pipelining) == 60);
  BOOST_TEST(port.connect() == kGreeting);
  port.clock.advance(seconds(61));
  BOOST_TEST(port.connect() == kTeaser + kGreeting);
}

BOOST_AUTO_TEST_CASE(only_the_lists_are_asked_again_when_only_they_are_due) {
  Port port(kLists + "postscreen_dnsbl_max_ttl = 2h\npostscreen_dnsbl_min_ttl = 90s\n");
  BOOST_TEST(port.greeted() == kTeaser + kGreeting);
  BOOST_TEST(port.holds(Test::dnsbl) == 83);  // since its answers came, 7 s ago
  port.clock.advance(seconds(100));
  BOOST_TEST(port.connect() == kGreeting);
  BOOST_TEST(port.holds(Test::dnsbl) == 90);
}

BOOST_AUTO_TEST_CASE(a_list_without_an_answer_counts_nothing_and_the_client_waits_no_longer) {
  Port port(kLists + "postscreen_dnsbl_action = drop\n");
  async::Event never(port.loop);
  port.names.gate = &never;
  BOOST_TEST(port.connect() == kTeaser);
  BOOST_TEST(port.after(milliseconds(6100)) == kGreeting);
  BOOST_TEST(port.holds(Test::dnsbl) == 60);
  port.hang_up();
  never.set();
  port.settle();
  Port quick(kLists + "postscreen_dnsbl_timeout = 1s\npostscreen_dnsbl_action = drop\n");
  quick.server.screener->learn(kClient, *triage::Record::parse("1800000500;0;1;1;1"));
  async::Event late(quick.loop);
  quick.names.gate = &late;
  BOOST_TEST(quick.connect() == "");
  BOOST_TEST(quick.after(milliseconds(1100)) == kGreeting);
  quick.hang_up();
}

BOOST_AUTO_TEST_CASE(sessions_of_one_client_share_the_questions) {
  Port port(kLists);
  async::Event gate(port.loop);
  port.names.gate = &gate;
  std::vector<int> clients;
  for (int i = 0; i < 2; ++i) {
    port.connect();
    clients.push_back(std::exchange(port.client, -1));
  }
  BOOST_TEST(port.server.screener->seats() == 2U);
  BOOST_TEST(port.names.asked.size() == 2U);
  gate.set();
  BOOST_TEST(port.connect("192.0.2.8") == kTeaser);
  BOOST_TEST(port.names.asked.size() == 4U);
  for (const int client : clients) ::close(client);
}

BOOST_AUTO_TEST_CASE(the_access_list_comes_first) {
  const std::string access =
      "postscreen_access_list = inline:{ { 192.0.2.1 = permit } { 192.0.2.2 = reject } { 192.0.2 = reject } "
      "{ 192.0.2.3 = dunno } { 192.0.2.4 = OK } }, permit_mynetworks, nonsense\n";
  Port port(access + "postscreen_denylist_action = drop\nmynetworks = 192.0.2.3, 192.0.2.5\n");
  BOOST_TEST(port.connect("192.0.2.1") == kGreeting);
  BOOST_TEST(port.connect("192.0.2.2") == "521 5.3.2 Service currently unavailable\r\n");
  BOOST_TEST(port.connect("192.0.2.3") == kTeaser);  // dunno ends the list
  BOOST_TEST(port.connect("192.0.2.4") == kTeaser);  // not understood: the list goes on
  BOOST_TEST(port.connect("192.0.2.5") == kGreeting);
  BOOST_TEST(port.connect("192.0.2.6") == kTeaser);  // no network but the address as a whole
  BOOST_TEST(!port.kept("192.0.2.1").has_value());
  BOOST_TEST(port.server.screener->screening().warnings.size() == 1U);

  Port enforce(access + "postscreen_blacklist_action = enforce\n");
  enforce.greeted("192.0.2.2");
  enforce.say("EHLO x\r\n");
  enforce.say(kMail);
  BOOST_TEST(enforce.say(kRcpt) == "550 5.3.2 Service currently unavailable\r\n");
  BOOST_TEST(!enforce.kept("192.0.2.2").has_value());
}

BOOST_AUTO_TEST_CASE(at_another_address_of_this_host_nobody_passes_for_good) {
  Port port("postscreen_allowlist_interfaces = 192.0.2.100\npostscreen_upstream_proxy_protocol = haproxy\n");
  const std::string first = "PROXY TCP4 192.0.2.7 192.0.2.100 4711 25\r\n";
  const std::string second = "PROXY TCP4 192.0.2.7 192.0.2.101 4711 25\r\n";
  BOOST_TEST(port.connect("192.0.2.200", second) == kTeaser);
  BOOST_TEST(port.after(seconds(7)) == kGreeting);
  port.say("EHLO x\r\n");
  BOOST_TEST(port.say(kMail) == "250 2.1.0 Ok\r\n");
  BOOST_TEST(port.say(kRcpt) == "450 4.3.2 Service currently unavailable\r\n");
  BOOST_TEST(!port.kept().has_value());
  BOOST_TEST(port.connect("192.0.2.200", first) == kTeaser);
  BOOST_TEST(port.after(seconds(7)) == kGreeting);
  BOOST_TEST(port.kept().has_value());
  BOOST_TEST(port.connect("192.0.2.200", second) == kGreeting);  // passed there
}

BOOST_AUTO_TEST_CASE(limits_of_those_that_are_tested) {
  Port one("postscreen_client_connection_count_limit = 1\n");
  one.connect();
  const int first = std::exchange(one.client, -1);
  BOOST_TEST(one.connect() == "421 4.7.0 Error: too many connections\r\n");
  BOOST_TEST(one.connect("192.0.2.8") == kTeaser);
  ::close(first);

  Port few("postscreen_pre_queue_limit = 1\n");
  few.connect();
  const int tested = std::exchange(few.client, -1);
  BOOST_TEST(few.connect("192.0.2.8") == "421 4.3.2 All screening ports are busy\r\n");
  few.server.screener->learn("192.0.2.9", *triage::Record::parse("1800000500;1;1;1;1"));
  BOOST_TEST(few.connect("192.0.2.9") == kGreeting);
  ::close(tested);
}

BOOST_AUTO_TEST_CASE(who_passed_waits_for_a_place_among_those_that_are_served) {
  Port port("postscreen_access_list = permit\npostscreen_post_queue_limit = 1\n", 1);
  BOOST_TEST(port.connect() == kGreeting);
  const int served = std::exchange(port.client, -1);
  BOOST_TEST(port.connect("192.0.2.8") == "");
  const int waits = std::exchange(port.client, -1);
  BOOST_TEST(port.connect("192.0.2.9") == "421 4.3.2 All server ports are busy\r\n");
  ::close(served);
  port.client = waits;
  BOOST_TEST(port.settle() == kGreeting);
}

BOOST_AUTO_TEST_CASE(a_stop_ends_the_wait) {
  Port port;
  BOOST_TEST(port.connect() == kTeaser);
  port.server.stop();
  BOOST_TEST(port.settle() == "421 4.3.2 mx.example.org Service closing transmission channel\r\n");
  BOOST_TEST(port.closed());
}

BOOST_AUTO_TEST_CASE(the_session_itself_shows_who_does_not_speak_smtp) {
  const std::string get = "GET / HTTP/1.1\r\n", field = "Subject: x\r\n";
  for (const auto& line : {get, field}) {
    Port drop(kTestsOfSessions);
    drop.greeted();
    drop.say("EHLO x\r\n");
    BOOST_TEST(drop.say(line) == "521 5.7.0 Error: I can break rules, too. Goodbye.\r\n");
    BOOST_TEST(drop.closed());
    BOOST_TEST(!drop.kept().has_value());  // what it passed before is void
  }
  Port enforce(kTestsOfSessions + "postscreen_non_smtp_command_action = enforce\n");
  enforce.greeted();
  enforce.say("EHLO x\r\n");
  BOOST_TEST(codes(enforce.say(get)) == "502");
  BOOST_TEST(codes(enforce.say(kMail + kRcpt)) == "250 550");
  BOOST_TEST(enforce.server.transactions == 0U);

  Port ignore(kTestsOfSessions +
              "postscreen_non_smtp_command_action = ignore\npostscreen_forbidden_commands = HOLA\n"
              "smtpd_forbidden_commands =\n");
  ignore.greeted();
  ignore.say("EHLO x\r\n");
  BOOST_TEST(codes(ignore.say(get)) == "500");  // not forbidden here
  BOOST_TEST(codes(ignore.say("HOLA\r\n")) == "500");
  BOOST_TEST(codes(ignore.say(kMail + kRcpt + "DATA\r\n")) == "250 250 354");
  BOOST_TEST(codes(ignore.say("Subject: x\r\n\r\nbody\r\n.\r\n")) == "250");
  BOOST_TEST(ignore.holds(Test::non_smtp) == 86400);  // until another test is due
  BOOST_TEST(ignore.holds(Test::pipelining) == 2592000);
}

BOOST_AUTO_TEST_CASE(the_session_itself_shows_who_does_not_wait) {
  Port enforce(kTestsOfSessions);
  enforce.greeted();
  BOOST_TEST(enforce.say("HELO x\r\n" + kMail + kRcpt + "QUIT\r\n") ==
             "250 mx.example.org\r\n250 2.1.0 Ok\r\n550 5.5.1 Protocol error\r\n221 2.0.0 Bye\r\n");
  BOOST_TEST(enforce.server.transactions == 0U);
  BOOST_TEST(!enforce.kept().has_value());
  // What EHLO has offered is no fault.
  BOOST_TEST(enforce.greeted().ends_with(kGreeting));
  enforce.say("EHLO x\r\n");
  BOOST_TEST(codes(enforce.say(kMail + kRcpt + "DATA\r\n")) == "250 250 354");
  Port drop(kTestsOfSessions + "postscreen_pipelining_action = drop\n");
  drop.greeted();
  BOOST_TEST(drop.say("EHLO x\r\n" + kMail) == "521 5.5.1 Protocol error\r\n");
  BOOST_TEST(drop.closed());
}

BOOST_AUTO_TEST_CASE(the_session_itself_shows_who_ends_lines_wrongly) {
  Port enforce(kTestsOfSessions + "postscreen_bare_newline_action = enforce\n");
  enforce.greeted();
  enforce.say("EHLO x\r\n");
  enforce.say(kMail);
  BOOST_TEST(enforce.say("RCPT TO:<user@example.org>\n") == "550 5.5.1 Protocol error\r\n");  // of the mail under way
  BOOST_TEST(enforce.queue.stored.empty());
  Port drop(kTestsOfSessions + "postscreen_bare_newline_action = drop\n");
  drop.greeted();
  BOOST_TEST(drop.say("EHLO x\n") == "521 5.5.1 Protocol error\r\n");
  Port ignore(kTestsOfSessions);
  ignore.greeted();
  BOOST_TEST(codes(ignore.say("EHLO x\n")) == "250");
}

BOOST_AUTO_TEST_CASE(a_good_session_passes_the_tests_of_sessions) {
  Port port(kTestsOfSessions +
            "postscreen_pipelining_ttl = 2d\npostscreen_non_smtp_command_ttl = 3d\n"
            "postscreen_bare_newline_ttl = 4d\n");
  port.greeted();
  port.say("EHLO x\r\n");
  BOOST_TEST(!port.kept().has_value());
  port.say("QUIT\r\n");
  BOOST_TEST(port.holds(Test::pregreet) == 86400);  // it has shown no more than that
  BOOST_TEST(port.kept()->of(Test::pipelining) == 0);
  BOOST_TEST(port.connect() == kGreeting);
  port.say("EHLO x\r\n");
  port.say(kMail);
  port.say("QUIT\r\n");
  BOOST_TEST(port.holds(Test::pipelining) == 2 * 86400);
  BOOST_TEST(port.holds(Test::non_smtp) == 3 * 86400);
  BOOST_TEST(port.holds(Test::bare_newline) == 4 * 86400);
}

BOOST_AUTO_TEST_CASE(a_refused_session_has_limits_and_settings_of_its_own) {
  Port port(
      "postscreen_greet_action = enforce\npostscreen_command_count_limit = 4\npostscreen_command_time_limit = 20s\n"
      "postscreen_helo_required = yes\npostscreen_disable_vrfy_command = yes\n"
      "postscreen_discard_ehlo_keywords = dsn\n"
      "postscreen_discard_ehlo_keyword_address_maps = inline:{ { 192.0.2.8 = etrn } }\n"
      "postscreen_command_filter = inline:{ { HALLO = NOOP } }\n"
      "postscreen_reject_footer = \\c. See $server_name, $client_address\n"
      "postscreen_expansion_filter = 0123456789mxeaplorg\n"
      "postscreen_reject_footer_maps = inline:{ { 550 5.5.1 Protocol error = } }\n");
  const std::string ehlo =
      "250-mx.example.org\r\n250-SIZE 10240000\r\n250-ETRN\r\n250-ENHANCEDSTATUSCODES\r\n250-8BITMIME\r\n";
  BOOST_TEST(port.connect(kClient, "HALLO\r\n").ends_with(kGreeting + "250 2.0.0 Ok\r\n"));
  BOOST_TEST(port.say(kMail) == "503 5.5.1 Error: send HELO/EHLO first\r\n");
  BOOST_TEST(port.say("EHLO x\r\n") == ehlo + "250 SMTPUTF8\r\n");
  BOOST_TEST(port.say("VRFY x\r\n") == "502 5.5.1 VRFY command is disabled\r\n");
  BOOST_TEST(port.say("NOOP\r\n") == "421 mx.example.org Service unavailable - try again later\r\n");
  BOOST_TEST(port.closed());

  BOOST_TEST(port.connect("192.0.2.8", "EHLO x\r\n")
                 .ends_with("250-ENHANCEDSTATUSCODES\r\n250-8BITMIME\r\n250-DSN\r\n250 SMTPUTF8\r\n"));
  port.say(kMail);
  BOOST_TEST(port.say(kRcpt) == "550 5.5.1 Protocol error\r\n");  // the map: without a footer
  BOOST_TEST(port.after(seconds(19)) == "");
  BOOST_TEST(port.after(seconds(2)) == "421 4.4.2 mx.example.org Error: timeout exceeded\r\n");
  BOOST_TEST(port.closed());

  Port footer(
      "postscreen_greet_action = drop\npostscreen_reject_footer = \\c. See $server_name\n"
      "postscreen_expansion_filter = mxeaplorg\n");
  BOOST_TEST(footer.connect(kClient, "EHLO x\r\n") == kTeaser + "521 5.5.1 Protocol error. See mx_example_org\r\n");
}

BOOST_AUTO_TEST_CASE(a_refused_session_answers_every_command) {
  Port port("postscreen_greet_action = enforce\n");
  const std::pair<std::string, std::string> kRows[] = {
      {"HELO", "501"},
      {"RSET", "250"},
      {"RCPT TO:<a@example.org>", "503"},
      {"AUTH PLAIN", "502"},
      {"STARTTLS", "502"},
      {"ETRN example.org", "458"},
      {"MAIL", "501"},
      {"MAIL FROM:<a@", "501"},
      {"HELO x", "250"},
      {"MAIL FROM:<>  BODY=8BITMIME", "250"},
      {"MAIL FROM:<a@b>", "503"},
      {"RCPT TO:<>", "501"},
      {"RCPT x", "501"},
      {"RCPT TO:<a@example.org> NOTIFY=NEVER", "550"},
      {"what", "502"},
      {"EXPN x", "502"},
      {"VRFY x", "252"},
  };
  BOOST_TEST(codes(port.connect(kClient, "NOOP\r\n")) == "220 250");
  for (const auto& [line, code] : kRows) BOOST_TEST(codes(port.say(line + "\r\n")) == code, line);
  BOOST_TEST(codes(port.say("BDAT 1000 LAST\r\n")) == "554");
  BOOST_TEST(port.closed());
}

BOOST_AUTO_TEST_CASE(a_line_without_end_ends_a_refused_session) {
  Port port("postscreen_greet_action = enforce\n");
  BOOST_TEST(codes(port.connect(kClient, "NOOP\r\n")) == "220 250");
  BOOST_TEST(codes(port.say(std::string(10'000, 'x'))) == "421");
  BOOST_TEST(port.closed());
}

BOOST_AUTO_TEST_CASE(the_header_of_the_proxy_has_a_time_of_its_own) {
  Port port("postscreen_upstream_proxy_protocol = haproxy\npostscreen_upstream_proxy_timeout = 3s\n");
  port.connect();
  BOOST_TEST(port.after(milliseconds(2900)) == "");
  BOOST_TEST(!port.closed());
  port.after(milliseconds(200));
  BOOST_TEST(port.closed());
}

BOOST_AUTO_TEST_CASE(old_names_of_settings_act_through_the_new_ones) {
  Port port(
      "postscreen_dnsbl_sites = rbl.example\npostscreen_dnsbl_whitelist_threshold = -7\npostscreen_dnsbl_ttl = 3\n"
      "postscreen_whitelist_interfaces = 192.0.2.100\npostscreen_blacklist_action = drop\n");
  const Screening& rules = port.server.screener->screening();
  BOOST_TEST(rules.rules.allow_threshold == -7);
  BOOST_TEST(rules.rules.of(Test::dnsbl).ttl.count() == 3 * 3600);
  BOOST_TEST(rules.allowlist_interfaces.matches_address("192.0.2.100").value_or(false));
  BOOST_TEST(!rules.allowlist_interfaces.matches_address("192.0.2.101").value_or(true));
  BOOST_TEST((rules.denylist_action == triage::Action::drop));
}

BOOST_AUTO_TEST_CASE(the_words_of_the_log_are_the_old_ones_where_that_is_asked_for) {
  const std::pair<std::string, std::string> kRows[] = {
      {"", "ALLOWLISTED DENYLISTED ALLOWLIST VETO"},
      {"respectful_logging = no\n", "WHITELISTED BLACKLISTED WHITELIST VETO"},
      {"compatibility_level = 3.5\n", "WHITELISTED BLACKLISTED WHITELIST VETO"},
      {"compatibility_level = 3.5\nrespectful_logging = yes\n", "ALLOWLISTED DENYLISTED ALLOWLIST VETO"},
  };
  for (const auto& [settings, words] : kRows) {
    const Port port(settings);
    const auto& w = port.server.screener->screening().words;
    BOOST_TEST(std::string(w.permitted) + " " + w.denied + " " + w.vetoed == words, settings);
  }
}

BOOST_AUTO_TEST_CASE(the_cache_is_kept_where_the_setting_says) {
  const std::pair<std::string, std::string> kRows[] = {
      {"btree:/var/lib/x/cache", "/var/lib/x/cache"},
      {"lmdb:/a", "/a"},
      {"proxy:btree:/a", "/a"},
      {"/a", "/a"},
      {"", ""},
  };
  for (const auto& [setting, directory] : kRows) BOOST_TEST(*screen_cache_directory(setting) == directory);
  for (const auto* setting : {"btree:relative", "memcache", "btree:"})
    BOOST_TEST(!screen_cache_directory(setting).has_value(), setting);
}

BOOST_AUTO_TEST_CASE(times_and_texts_in_the_log) {
  const std::pair<std::int64_t, std::string> kTimes[] = {{0, "0"},      {4, "0"},    {70, "0.07"}, {300, "0.3"},
                                                         {1200, "1.2"}, {6000, "6"}, {12345, "12"}};
  for (const auto& [time, text] : kTimes) BOOST_TEST(short_time(milliseconds(time)) == text);
  BOOST_TEST(escaped("EHLO \\x\r\n\x01\xff") == "EHLO \\\\x\\r\\n\\001\\377");
  BOOST_TEST(escaped(std::string(200, '\n')).size() == 100U);
}

BOOST_AUTO_TEST_SUITE_END()
