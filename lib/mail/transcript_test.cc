#include "lib/mail/transcript.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::mail;

namespace {
bool has(const Transcript& t, std::string_view what) { return t.text().find(what) != std::string::npos; }
}  // namespace

BOOST_AUTO_TEST_SUITE(transcript)

BOOST_AUTO_TEST_CASE(a_session_is_kept_as_it_was_said) {
  Transcript server(Transcript::Side::server);
  server.reply("220 mx.example.org");
  server.command("EHLO there");
  server.replies("250-mx.example.org\r\n250 SIZE\r\n");
  server.command("FROB \x01\xc3\xa9");
  BOOST_TEST(server.text() ==
             "Out: 220 mx.example.org\nIn:  EHLO there\nOut: 250-mx.example.org\nOut: 250 SIZE\n"
             "In:  FROB ???\n");
  BOOST_TEST(server.lines() == 5u);
  Transcript client(Transcript::Side::client);
  client.reply("220 far.example");
  client.command("QUIT");
  BOOST_TEST(client.text() == "In:  220 far.example\nOut: QUIT\n");
}

BOOST_AUTO_TEST_CASE(credentials_are_left_out) {
  for (const auto side : {Transcript::Side::server, Transcript::Side::client}) {
    Transcript t(side);
    t.command("AUTH PLAIN AGFkYQBzZWNyZXQ=");
    t.reply("535 5.7.8 no");
    t.command("auth login");
    t.reply("334 VXNlcm5hbWU6");
    t.response();
    t.reply("334-UGFz");
    t.reply("334 c3dvcmQ6");
    t.response();
    t.reply("300 any of these is a challenge");
    t.response();
    t.reply("235 2.7.0 ok");
    t.command("NOOP seen");
    BOOST_TEST(!has(t, "AGFk"));
    BOOST_TEST(!has(t, "UGFz"));
    BOOST_TEST(!has(t, "c3dv"));
    BOOST_TEST(!has(t, "challenge"));
    BOOST_TEST(has(t, "AUTH PLAIN ***\n"));
    BOOST_TEST(has(t, "AUTH login\n"));
    BOOST_TEST(has(t, "334 ***\n"));
    BOOST_TEST(has(t, "300 ***\n"));
    BOOST_TEST(has(t, "NOOP seen\n"));
  }
}

BOOST_AUTO_TEST_CASE(what_a_client_sends_on_after_a_refused_command_is_left_out) {
  Transcript t(Transcript::Side::server);
  t.command("AUTH LOGIN");
  t.reply("503 5.5.1 Error: authentication not enabled");
  t.command("c2VjcmV0");
  t.reply("500 5.5.2 Error: command not recognized");
  t.command("HELP secret");
  t.reply("214 2.0.0 Commands");
  t.command("c2VjcmV0IGFmdGVyIEhFTFA=");  // the answer to HELP does not answer AUTH
  t.reply("500 5.5.2 Error: command not recognized");
  t.command("AUTH c2VjcmV0LXBhc3N3b3Jk/w==");  // not a mechanism's name
  t.reply("535 5.7.8 Error");
  t.command("DATA");
  t.reply("554 5.5.1 Error: no valid recipients");
  t.command("Subject: private");
  t.command("MAIL me tomorrow");
  t.reply("500 5.5.2 Error: command not recognized");
  t.command("Auth private words");
  t.reply("503 5.5.1 Error: authentication not enabled");
  t.command("Help us: secret");
  t.reply("214 2.0.0 Commands");
  t.command("RSET");
  t.reply("250 2.0.0 Ok");
  t.command("MAIL FROM:<seen@example.org>");
  t.reply("250 2.1.0 Ok");
  t.command("private behind lines like commands");
  t.reply("500 5.5.2 Error: command not recognized");
  t.command("BDAT 10");
  t.reply("503 5.5.1 Error");
  t.command("private too");
  t.command("QUIT");
  for (const char* secret : {"c2Vj", "secret", "rivate", "tomorrow"}) BOOST_TEST(!has(t, secret));
  BOOST_TEST(has(t, "In:  RSET\n"));
  BOOST_TEST(has(t, "In:  MAIL FROM:<seen@example.org>\n"));
  BOOST_TEST(has(t, "In:  QUIT\n"));
}

BOOST_AUTO_TEST_CASE(a_client_that_goes_on_properly_is_seen_again) {
  Transcript t(Transcript::Side::server);
  t.command("DATA");
  t.reply("554-5.5.1 Error: no valid recipients");
  t.reply("554 5.5.1 so it is");
  t.command("RSET");
  t.reply("250 2.0.0 Ok");
  t.command("FROB 1");
  t.command("AUTH PLAIN x");
  t.reply("535-5.7.8 no");
  t.reply("535 5.7.8 no");
  t.command("AUTH PLAIN y");
  t.reply("235-2.7.0 nearly");  // not the last line
  t.command("hidden");
  t.command("AUTH PLAIN y");
  t.reply("235 2.7.0 ok");
  t.command("FROB 2");
  t.command("DATA");
  t.reply("354 go on");  // the content is not passed to the transcript
  t.reply("550 5.7.1 refused");
  t.command("FROB 3");
  t.command("BDAT 5");
  t.reply("250 2.0.0 5 bytes");
  t.command("FROB 4");
  for (const char* seen : {"FROB 1\n", "FROB 2\n", "FROB 3\n", "FROB 4\n"}) BOOST_TEST(has(t, seen), seen);
  BOOST_TEST(!has(t, "hidden"));
}

BOOST_AUTO_TEST_CASE(a_client_that_sends_ahead_hides_nothing_of_what_it_says) {
  Transcript t(Transcript::Side::client);
  t.commands("MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n");
  t.replies("250 a\r\n554 b\r\n554 c\r\n");
  t.command("XFORWARD NAME=seen");
  BOOST_TEST(has(t, "Out: XFORWARD NAME=seen\n"));
}

BOOST_AUTO_TEST_CASE(it_is_bounded_and_says_what_is_missing) {
  Transcript t(Transcript::Side::server);
  t.command("first");
  for (int i = 0; i < 5000; ++i) t.command("RCPT TO:<" + std::to_string(i) + "@example.org>");
  t.command("last" + std::string(100000, 'x'));
  BOOST_TEST(t.text().size() < Transcript::kMost + 100);
  BOOST_TEST(t.text().starts_with("In:  first\n"));
  BOOST_TEST(has(t, "\nIn:  lastxxx"));
  BOOST_TEST(has(t, "lines left out]\n"));
  BOOST_TEST(t.lines() == 5002u);
  t.error(ErrorClass::policy);
  t.clear();
  BOOST_TEST(t.text().empty());
  BOOST_TEST(t.errors().empty());
}

BOOST_AUTO_TEST_CASE(the_words_of_notify_classes_are_read_and_told) {
  const std::vector<std::string> words = {"Bounce", "policy"};
  const auto classes = parse_error_classes(words);
  BOOST_REQUIRE(classes);
  BOOST_TEST(shown(*classes) == "bounce, 2bounce, policy");
  BOOST_TEST(ErrorClasses(ErrorClass::protocol).among(*classes).empty());
  BOOST_TEST(classes->among(ErrorClass::policy).has(ErrorClass::policy));
  const std::vector<std::string> wrong = {"data", "bouncy"};
  const auto none = parse_error_classes(wrong);
  BOOST_REQUIRE(!none);
  BOOST_TEST(none.error().context().starts_with("notify_classes: bouncy: bounce, 2bounce, data"));
}

BOOST_AUTO_TEST_SUITE_END()
