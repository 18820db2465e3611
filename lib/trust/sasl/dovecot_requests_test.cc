#include "lib/trust/sasl/dovecot_requests.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"

namespace pen::sasl::dovecot {
namespace {

std::string_view without_end(const std::string& line) { return std::string_view(line).substr(0, line.size() - 1); }

BOOST_AUTO_TEST_SUITE(sasl_dovecot_requests)

BOOST_AUTO_TEST_CASE(what_smtpd_says_is_understood) {
  ClientHello hello;
  const std::string application = application_line({.name = "smtpd", .realm = "a\tb", .host = "mx.example"});
  for (const char* line : {"VERSION\t1\t1", "CPID\t17", "FUTURE\tx"}) BOOST_TEST(!hello.feed(line).value());
  BOOST_TEST(hello.feed(without_end(application)).value());
  BOOST_TEST((hello.take_application() == Application{.name = "smtpd", .realm = "a\tb", .host = "mx.example"}));

  Request request;
  request.mechanism = "PLAIN";
  request.service = "smtp";
  request.secured = true;
  request.local_address = "192.0.2.1";
  request.remote_address = "2001:db8::7";
  request.local_port = 587;
  request.remote_port = 40000;
  request.initial = base64_encode(std::string("\0anna\0secret", 12));
  const auto asked = parse_request(without_end(auth_line(7, request))).value().value();
  BOOST_TEST((asked.kind == Asked::Kind::start && asked.id == 7U));
  BOOST_TEST((asked.request.mechanism == "PLAIN" && asked.request.service == "smtp" && asked.request.secured));
  BOOST_TEST((asked.request.local_address == "192.0.2.1" && asked.request.remote_address == "2001:db8::7"));
  BOOST_TEST((asked.request.local_port == 587 && asked.request.remote_port == 40000));
  BOOST_TEST((asked.request.initial == std::string("\0anna\0secret", 12)));
  request.initial.reset();
  BOOST_TEST(!parse_request(without_end(auth_line(7, request))).value()->request.initial);
  request.initial = "";  // "AUTH PLAIN =" is no "AUTH PLAIN"
  BOOST_TEST((parse_request(without_end(auth_line(7, request))).value()->request.initial == ""));

  const auto more = parse_request(without_end(continue_line(8, "WFla"))).value().value();
  BOOST_TEST((more.kind == Asked::Kind::respond && more.id == 8U && more.response == "XYZ"));
  const auto end = parse_request(without_end(cancel_line(9))).value().value();
  BOOST_TEST((end.kind == Asked::Kind::cancel && end.id == 9U));
  BOOST_TEST(!parse_request("USER\t1\tx").value());
}

BOOST_AUTO_TEST_CASE(what_smtpd_does_not_say_is_refused_without_repeating_it) {
  const std::string long_text(kMaxField + 1, 'x');
  for (const std::string& line :
       {std::string("AUTH"), std::string("AUTH\t0\tPLAIN"), std::string("AUTH\t1"), std::string("AUTH\t1\tPLA IN"),
        std::string("AUTH\t1\tPLAIN\tresp=secret!"), std::string("AUTH\t1\tPLAIN\trport=65536"),
        std::string("AUTH\t1\tPLAIN\tservice=\1") + "0", "AUTH\t1\tPLAIN\trip=" + long_text,
        std::string("CONT\t1\tsecret!"), std::string("CONT\t4294967296\t"), std::string("CANCEL\t-1")}) {
    const auto asked = parse_request(line);
    BOOST_TEST(asked.error().is(SaslError::bad_line), line);
    BOOST_TEST(!asked.error().message().contains("secret"));
  }
  ClientHello early, other, nameless, endless;
  BOOST_TEST(early.feed("APPLICATION\tsmtpd").error().is(SaslError::bad_line));
  BOOST_TEST(other.feed("VERSION\t2\t0").error().is(SaslError::wrong_version));
  (void)nameless.feed("VERSION\t1\t1");
  BOOST_TEST(nameless.feed("APPLICATION\t\trealm=x").error().is(SaslError::bad_line));
  (void)endless.feed("VERSION\t1\t1");
  BOOST_TEST(endless.feed("APPLICATION\tsmtpd\trealm=" + long_text).error().is(SaslError::bad_line));
}

BOOST_AUTO_TEST_CASE(what_is_answered_is_what_smtpd_reads) {
  const std::vector<Mechanism> offered = {{"PLAIN", property::kPlaintext | property::kActive | property::kDictionary},
                                          {"SCRAM-SHA-256", property::kMutualAuth},
                                          {"ANONYMOUS", property::kAnonymous}};
  Handshake handshake;
  std::string greeting = server_greeting(offered, 4711, "0123456789abcdef0123456789abcdef");
  bool done = false;
  while (!greeting.empty()) {
    BOOST_TEST(!done);
    done = handshake.feed(greeting.substr(0, greeting.find('\n'))).value();
    greeting.erase(0, greeting.find('\n') + 1);
  }
  BOOST_TEST(done);
  BOOST_TEST((handshake.mechanisms() == offered));

  const auto ok = parse_reply(without_end(ok_line(3, "an\tna"))).value().value();
  BOOST_TEST((ok.kind == Reply::Kind::ok && ok.id == 3U && ok.user == "an\tna"));
  const auto asks = parse_reply(without_end(challenge_line(3, "XYZ"))).value().value();
  BOOST_TEST((asks.kind == Reply::Kind::challenge && asks.text == "WFla"));
  const auto no = parse_reply(without_end(fail_line(3, "anna", "no", false))).value().value();
  BOOST_TEST((no.kind == Reply::Kind::fail && no.user == "anna" && no.text == "no" && !no.temporary));
  const auto later = parse_reply(without_end(fail_line(3, "", "later", true))).value().value();
  BOOST_TEST((later.temporary && later.user.empty()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sasl::dovecot
