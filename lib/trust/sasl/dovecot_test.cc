#include "lib/trust/sasl/dovecot.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"

namespace pen::sasl {
namespace {

BOOST_AUTO_TEST_SUITE(sasl_dovecot)

BOOST_AUTO_TEST_CASE(base_64_is_strict_both_ways) {
  // RFC 4648 section 10
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    BOOST_TEST(base64_encode(bytes) == text);
    BOOST_TEST((base64_decode(text) == bytes));
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  BOOST_TEST((base64_decode(base64_encode(all)) == all));
  for (const char* wrong : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=", "====", "Zg==Zg==", "Zm 9v", "Zm9\n",
                            "Zm9v\t", "Z\x80==", "-_-_"})
    BOOST_TEST(!valid_base64(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(a_request_says_all_and_nothing_breaks_out_of_its_field) {
  dovecot::Request request;
  request.mechanism = "PLAIN";
  request.service = "smtp\tnologin";
  request.secured = true;
  request.local_address = "192.0.2.1";
  request.remote_address = "2001:db8::1";
  request.local_port = 587;
  request.remote_port = 4711;
  request.initial = "AGE=";
  BOOST_TEST(dovecot::auth_line(7, request) ==
             "AUTH\t7\tPLAIN\tservice=smtp\1tnologin\tnologin\tsecured\tlip=192.0.2.1\t"
             "rip=2001:db8::1\tlport=587\trport=4711\tresp=AGE=\n");
  request = {};
  request.mechanism = "LOGIN";
  request.service = "smtp";
  BOOST_TEST(dovecot::auth_line(1, request) == "AUTH\t1\tLOGIN\tservice=smtp\tnologin\n");
  request.initial = "";  // an empty response is a response
  BOOST_TEST(dovecot::auth_line(1, request) == "AUTH\t1\tLOGIN\tservice=smtp\tnologin\tresp=\n");
  BOOST_TEST(dovecot::continue_line(2, "QUJD") == "CONT\t2\tQUJD\n");
  BOOST_TEST(dovecot::cancel_line(2) == "CANCEL\t2\n");
  const std::string nasty("a\tb\nc\rd\1e\0f", 11);
  BOOST_TEST(dovecot::escape(nasty).find_first_of("\t\n\r") == std::string::npos);
  BOOST_TEST(dovecot::unescape(dovecot::escape(nasty)) == nasty);
}

BOOST_AUTO_TEST_CASE(the_greeting_tells_the_mechanisms) {
  dovecot::Handshake hello;
  for (const char* line : {"VERSION\t1\t2", "MECH\tPLAIN\tplaintext", "MECH\tscram-sha-256\tmutual-auth\tnew-word",
                           "MECH\tANONYMOUS\tanonymous", "SPID\t12", "CUID\t3", "COOKIE\t00", "NEWWORD\tx"})
    BOOST_TEST(hello.feed(line).value() == false);
  BOOST_TEST(hello.feed("DONE").value() == true);
  const std::vector<Mechanism> expected = {
      {"PLAIN", property::kPlaintext}, {"SCRAM-SHA-256", property::kMutualAuth}, {"ANONYMOUS", property::kAnonymous}};
  BOOST_TEST((hello.mechanisms() == expected));
}

BOOST_AUTO_TEST_CASE(a_greeting_that_cannot_be_right_is_refused) {
  const auto fails = [](std::initializer_list<std::string> lines, SaslError why) {
    dovecot::Handshake hello;
    for (const auto& line : lines) {
      const auto fed = hello.feed(line);
      if (!fed) return fed.error().is(why);
      if (*fed) return false;
    }
    return false;
  };
  BOOST_TEST(fails({"VERSION\t2\t0"}, SaslError::wrong_version));
  BOOST_TEST(fails({"VERSION\tx"}, SaslError::bad_line));
  BOOST_TEST(fails({"VERSION\t1\t1", "DONE"}, SaslError::no_mechanism));
  BOOST_TEST(fails({"MECH\tPLAIN", "DONE"}, SaslError::bad_line));
  BOOST_TEST(fails({"MECH\tPLAIN X"}, SaslError::bad_line));
  BOOST_TEST(fails({"MECH\t"}, SaslError::bad_line));
  dovecot::Handshake many;
  for (std::size_t i = 0; i < dovecot::kMaxMechanisms; ++i)
    BOOST_TEST(many.feed("MECH\tM" + std::to_string(i)).has_value());
  BOOST_TEST(!many.feed("MECH\tONE-MORE").has_value());
}

BOOST_AUTO_TEST_CASE(replies_are_read_and_unknown_words_left_alone) {
  using Kind = dovecot::Reply::Kind;
  auto ok = dovecot::parse_reply("OK\t7\tuser=an\1tna\tnologin\tx=y").value().value();
  BOOST_TEST((ok.kind == Kind::ok && ok.id == 7 && ok.user == "an\tna"));
  auto challenge = dovecot::parse_reply("CONT\t8\tVXNlcm5hbWU6").value().value();
  BOOST_TEST((challenge.kind == Kind::challenge && challenge.id == 8 && challenge.text == "VXNlcm5hbWU6"));
  BOOST_TEST(dovecot::parse_reply("CONT\t8\t").value().value().text == "");
  auto failed = dovecot::parse_reply("FAIL\t9\tuser=b\treason=not you\tauthz").value().value();
  BOOST_TEST((failed.kind == Kind::fail && !failed.temporary && failed.text == "not you" && failed.user == "b"));
  BOOST_TEST(dovecot::parse_reply("FAIL\t9\ttemp").value().value().temporary);
  BOOST_TEST(dovecot::parse_reply("FAIL\t9\tcode=temp_fail").value().value().temporary);
  BOOST_TEST(!dovecot::parse_reply("SOMETHING\telse").value());
  for (const char* wrong : {"OK\t7", "OK\t\tuser=x", "OK\t0\tuser=x", "OK\t4294967296\tuser=x", "OK\t-1\tuser=x", "OK",
                            "FAIL", "FAIL\tx", "CONT\t1\t***", "CONT\t1\tQQ"})
    BOOST_TEST(dovecot::parse_reply(wrong).error().is(SaslError::bad_line), wrong);
}

BOOST_AUTO_TEST_CASE(security_options_filter_by_properties) {
  const auto parse = [](std::vector<std::string> words) { return SecurityOptions::parse(words); };
  const auto options = parse({"noanonymous", "NoPlainText", "mutual_auth"}).value();
  BOOST_TEST(!options.allow(property::kPlaintext | property::kMutualAuth));
  BOOST_TEST(!options.allow(property::kAnonymous | property::kMutualAuth));
  BOOST_TEST(!options.allow(0));
  BOOST_TEST(options.allow(property::kMutualAuth | property::kDictionary));
  BOOST_TEST(parse({}).value().allow(property::kAnonymous));
  BOOST_TEST(!parse({}).value().allow(property::kPrivate));
  BOOST_TEST(parse({"noanonymus"}).error().is(SaslError::bad_setting));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sasl
