#include "lib/mail/command.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/date.h"

using namespace pen;
using namespace pen::mail;

namespace {

const CommandOptions kAll;

std::string path_of(std::string_view text, bool strict = false) {
  auto r = take_path(text, strict);
  if (!r) return "error";
  return *r + "|" + std::string(text);
}
template <class T>
std::string why(const Result<T>& r) {
  if (r) return "accepted";
  for (auto e : {CommandError::syntax, CommandError::bad_address, CommandError::needs_smtputf8,
                 CommandError::unknown_parameter, CommandError::bad_parameter, CommandError::bad_size})
    if (r.error().is(e)) return std::string(describe(e)) + ": " + r.error().context();
  return "other";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(command)

BOOST_AUTO_TEST_CASE(a_line_is_cut_after_its_verb_in_any_case) {
  auto c = split_command("mAiL fRoM:<A@b>  ");
  BOOST_TEST((c.verb == Verb::mail));
  BOOST_TEST(c.args == "fRoM:<A@b>");
  BOOST_TEST((split_command("").verb == Verb::unknown));
  BOOST_TEST((split_command("  quit").verb == Verb::quit));
  BOOST_TEST((split_command("MAILER").verb == Verb::unknown));
  BOOST_TEST((split_command("UNKNOWN").verb == Verb::unknown));
  BOOST_TEST(split_command("NOOP a b").args == "a b");
  BOOST_TEST((split_command("BDAT 0 LAST").verb == Verb::bdat));
}

BOOST_AUTO_TEST_CASE(paths_come_out_in_external_form) {
  BOOST_TEST(path_of("<>") == "|");
  BOOST_TEST(path_of("<a@b>") == "a@b|");
  BOOST_TEST(path_of("<a@b> SIZE=3") == "a@b| SIZE=3");
  BOOST_TEST(path_of("<MixedCase@Example.ORG>") == "MixedCase@Example.ORG|");
  BOOST_TEST(path_of("<\"a b\"@d>") == "\"a b\"@d|");
  BOOST_TEST(path_of("<\"a\\\"b\"@d>") == "\"a\\\"b\"@d|");
  BOOST_TEST(path_of("<\"postmaster\"@d>") == "postmaster@d|");
  BOOST_TEST(path_of("<a\\ b@d>") == "\"a b\"@d|");
  BOOST_TEST(path_of("<\"\"@d>") == "\"\"@d|");
  BOOST_TEST(path_of("<\"a@b\"@d>") == "\"a@b\"@d|");
  BOOST_TEST(path_of("<a..b@d>") == "\"a..b\"@d|");
  BOOST_TEST(path_of("<postmaster>") == "postmaster|");
  BOOST_TEST(path_of("<a@d.>") == "a@d|");
  BOOST_TEST(path_of("a@b") == "a@b|");
  BOOST_TEST(path_of("a@b X") == "a@b| X");
}

BOOST_AUTO_TEST_CASE(source_routes_are_read_and_dropped) {
  BOOST_TEST(path_of("<@a,@b:u@c>") == "u@c|");
  BOOST_TEST(path_of("<@a:u@c>") == "u@c|");
  BOOST_TEST(path_of("<@[192.0.2.1]:u@c>") == "u@c|");
  for (auto text : {"<@a>", "<@a:>", "<@a,:u@c>", "<@a,b:u@c>", "<@:u@c>", "<@a,@b u@c>"})
    BOOST_TEST(path_of(text) == "error");
}

BOOST_AUTO_TEST_CASE(address_literals_stand_in_domain_position) {
  BOOST_TEST(path_of("<a@[192.0.2.1]>") == "a@[192.0.2.1]|");
  BOOST_TEST(path_of("<a@[IPv6:2001:db8::1]>") == "a@[IPv6:2001:db8::1]|");
  BOOST_TEST(path_of("<a@[]>") == "error");
  BOOST_TEST(path_of("<a@[1.2.3.4>") == "error");
}

BOOST_AUTO_TEST_CASE(bad_paths_are_refused_and_never_mis_parsed) {
  for (auto text : {"<",       "<a",      "<a@",           "<@b>",      "<a@>",    "<a b@c>",  "<a@b c>", "<a@b>x",
                    "<a@b@c>", "<a@b,c>", "<(a)@b>",       "<\"a@b>",   "<a\"@b",  "<a@b..c>", "<a@.b>",  "<<a@b>>",
                    "<a@b>>",  "<a\\",    "<\"a\x01\"@b>", "<a\x7f@b>", "<a;b@c>", ""})
    BOOST_TEST(path_of(text) == "error", text);
  BOOST_TEST(path_of("a@b", true) == "error");
  BOOST_TEST(path_of("<a@" + std::string(255, 'd') + ">") == "a@" + std::string(255, 'd') + "|");
  BOOST_TEST(path_of("<a@" + std::string(256, 'd') + ">") == "error");
  BOOST_TEST(path_of("<" + std::string(64, 'l') + "@d>") == std::string(64, 'l') + "@d|");
}

BOOST_AUTO_TEST_CASE(mail_takes_every_announced_parameter) {
  auto m = parse_mail("FROM:<a@b> SIZE=12345 BODY=8bitmime RET=HDRS ENVID=x+2Dy SMTPUTF8", kAll);
  BOOST_REQUIRE(m);
  BOOST_TEST(m->sender == "a@b");
  BOOST_TEST(*m->size == 12345u);
  BOOST_TEST((m->body_type == BodyType::eight_bit_mime));
  BOOST_TEST((m->ret == Ret::headers));
  BOOST_TEST(m->envid == "x-y");
  BOOST_TEST(m->smtputf8);
  BOOST_TEST(parse_mail("from: <a@b>", kAll)->sender == "a@b");
  BOOST_TEST(parse_mail("FROM:<>", kAll)->sender.empty());
  BOOST_TEST(*parse_mail("FROM:<a@b> SIZE=00000000000000000007", kAll)->size == 7u);
  BOOST_TEST(*parse_mail("FROM:<a@b> SIZE=99999999999999999999", kAll)->size == UINT64_MAX);
}

BOOST_AUTO_TEST_CASE(xverp_is_taken_where_it_is_offered) {
  const CommandOptions options{.verp = "+="};
  BOOST_TEST(parse_mail("FROM:<a@b> XVERP", options)->verp == "+=");
  BOOST_TEST(parse_mail("FROM:<a@b> xverp==-", options)->verp == "=-");
  BOOST_TEST(parse_mail("FROM:<a@b> XVERP=x", options)->verp == "x");  // the session knows which may be
  BOOST_TEST(parse_mail("FROM:<a@b>", options)->verp == "");
  BOOST_TEST(why(parse_mail("FROM:<a@b> XVERP=", options)) == "bad parameter syntax: XVERP");
  BOOST_TEST(parse_mail("FROM:<a@b> XVERP XVERP=-=", options)->verp == "-=");
  BOOST_TEST(parse_mail("FROM:<a@b> XVERP=-= XVERP", options)->verp == "+=");
  BOOST_TEST(why(parse_mail("FROM:<a@b> XVERP", kAll)) == "unsupported option: XVERP");
}

BOOST_AUTO_TEST_CASE(mt_priority_is_a_number_of_one_digit) {
  const CommandOptions options{.mt_priority = true};
  for (const int p : {-9, -1, 0, 1, 9}) {
    const auto mail = parse_mail("FROM:<a@b> mt-priority=" + std::to_string(p), options);
    BOOST_REQUIRE(mail);
    BOOST_TEST(mail->priority == p);
    BOOST_TEST(mail->priority_given);
  }
  BOOST_TEST(!parse_mail("FROM:<a@b>", options)->priority_given);
  for (const char* bad : {"", "=", "=10", "=-10", "=+1", "=-0", "=03", "=x", "=3x", "=3 MT-PRIORITY=3"})
    BOOST_TEST(
        why(parse_mail("FROM:<a@b> MT-PRIORITY" + std::string(bad), options)) == "bad parameter syntax: MT-PRIORITY",
        bad);
  BOOST_TEST(why(parse_mail("FROM:<a@b> MT-PRIORITY=3", kAll)) == "unsupported option: MT-PRIORITY=3");
}

BOOST_AUTO_TEST_CASE(mail_for_later_has_one_time_within_the_limit) {
  const auto now = parse_date_time("2026-12-01T08:00:00Z");
  BOOST_REQUIRE(now);
  const CommandOptions options{.future_release = seconds(7200), .now = *now};
  const auto mail = parse_mail("FROM:<a@b> holdfor=3600", options);
  BOOST_REQUIRE(mail);
  BOOST_TEST((mail->release == *now + seconds(3600)));
  BOOST_TEST(mail->release_request == "for;3600");
  const auto until = parse_mail("FROM:<a@b> HOLDUNTIL=2026-12-01T11:00:00+02:00", options);
  BOOST_REQUIRE(until);
  BOOST_TEST((until->release == *now + seconds(3600)));
  BOOST_TEST(until->release_request == "until;2026-12-01T11:00:00+02:00");
  BOOST_TEST((parse_mail("FROM:<a@b>", options)->release == WallTime{}));
  for (const char* bad : {"HOLDFOR", "HOLDFOR=", "HOLDFOR=0", "HOLDFOR=-1", "HOLDFOR=7201", "HOLDFOR=1h",
                          "HOLDFOR=1000000000", "HOLDFOR=60 HOLDFOR=60"})
    BOOST_TEST(why(parse_mail("FROM:<a@b> " + std::string(bad), options)) == "bad parameter syntax: HOLDFOR", bad);
  for (const char* bad : {"HOLDUNTIL", "HOLDUNTIL=", "HOLDUNTIL=2026-12-01T08:00:00Z", "HOLDUNTIL=2026-12-01T10:00:01Z",
                          "HOLDUNTIL=tomorrow", "HOLDFOR=60 HOLDUNTIL=2026-12-01T09:00:00Z",
                          "HOLDUNTIL=2026-12-01T09:00:00.00000000000000000000000000000000000000000Z"})
    BOOST_TEST(why(parse_mail("FROM:<a@b> " + std::string(bad), options)) == "bad parameter syntax: HOLDUNTIL", bad);
  BOOST_TEST(why(parse_mail("FROM:<a@b> HOLDFOR=60", kAll)) == "unsupported option: HOLDFOR=60");
}

BOOST_AUTO_TEST_CASE(mail_names_what_it_refuses) {
  BOOST_TEST(why(parse_mail("", kAll)) == "syntax error: ");
  BOOST_TEST(why(parse_mail("FROM:", kAll)) == "syntax error: ");
  BOOST_TEST(why(parse_mail("<a@b>", kAll)) == "syntax error: ");
  BOOST_TEST(why(parse_mail("FROM:<a@b> FOO=1", kAll)) == "unsupported option: FOO=1");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SIZE=x", kAll)) == "bad message size syntax: SIZE=x");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SIZE=123456789012345678901", kAll)) ==
             "bad message size syntax: SIZE=123456789012345678901");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SIZE", kAll)) == "bad message size syntax: SIZE");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SIZE=1 SIZE=2", kAll)) == "bad parameter syntax: SIZE");
  BOOST_TEST(why(parse_mail("FROM:<a@b> BODY=BINARYMIME", kAll)) == "bad parameter syntax: BODY");
  BOOST_TEST(why(parse_mail("FROM:<a@b> RET=BOTH", kAll)) == "bad parameter syntax: RET");
  BOOST_TEST(why(parse_mail("FROM:<a@b> ENVID=a+2", kAll)) == "bad parameter syntax: ENVID");
  BOOST_TEST(why(parse_mail("FROM:<a@b> ENVID=+00", kAll)) == "bad parameter syntax: ENVID");
  BOOST_TEST(parse_mail("FROM:<a@b> ENVID=" + std::string(1000, 'x'), kAll)->envid.size() == 1000U);
  BOOST_TEST(why(parse_mail("FROM:<a@b> ENVID=" + std::string(1001, 'x'), kAll)) == "bad parameter syntax: ENVID");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SMTPUTF8=1", kAll)) == "bad parameter syntax: SMTPUTF8");
  BOOST_TEST(why(parse_mail("FROM:<a@b> =", kAll)) == "unsupported option: =");
  BOOST_TEST(why(parse_mail("FROM:<\xc3\xa9@b>", kAll)) == "non-ASCII address without SMTPUTF8: \xc3\xa9@b");
  BOOST_TEST(parse_mail("FROM:<\xc3\xa9@b> SMTPUTF8", kAll).has_value());
  BOOST_TEST(why(parse_mail("FROM:<\xc3@b> SMTPUTF8", kAll)) == "bad address syntax: <\xc3@b>");
  const CommandOptions helo{.size = false, .eight_bit_mime = false, .dsn = false, .smtputf8 = false};
  BOOST_TEST(why(parse_mail("FROM:<a@b> SIZE=1", helo)) == "unsupported option: SIZE=1");
  BOOST_TEST(why(parse_mail("FROM:<a@b> SMTPUTF8", helo)) == "unsupported option: SMTPUTF8");
}

BOOST_AUTO_TEST_CASE(rcpt_takes_dsn_parameters_to_the_letter) {
  auto r = parse_rcpt("TO:<c@d> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;c+2Bx@d", kAll, false);
  BOOST_REQUIRE(r);
  BOOST_TEST(r->notify == (notify::kSuccess | notify::kFailure | notify::kDelay));
  BOOST_TEST(r->orcpt == "rfc822;c+2Bx@d");
  BOOST_TEST(parse_rcpt("TO:<c@d> NOTIFY=never", kAll, false)->notify == notify::kNever);
  // Others' slips are read, and sent on as they should be.
  BOOST_TEST(parse_rcpt("TO:<c@d> ORCPT=rfc822;a+3db+2Bc@d", kAll, false)->orcpt == "rfc822;a+3Db+2Bc@d");
  BOOST_TEST(parse_rcpt("TO:<c@d> ORCPT=rfc822;c+40d+2bx", kAll, false)->orcpt == "rfc822;c+40d+2Bx");
  BOOST_TEST(parse_rcpt("TO:<c@d> ORCPT=rfc822;a=b@d", kAll, false)->orcpt == "rfc822;a+3Db@d");
  BOOST_TEST(parse_rcpt("TO:<c@d> ORCPT=rfc822;", kAll, false)->orcpt == "");
  for (auto slip : {"SUCCESS,SUCCESS", ",SUCCESS", "SUCCESS,"})
    BOOST_TEST(parse_rcpt(std::string("TO:<c@d> NOTIFY=") + slip, kAll, false)->notify == notify::kSuccess, slip);
  for (auto bad : {"NOTIFY=NEVER,SUCCESS", "NOTIFY=", "NOTIFY=,", "NOTIFY=X", "NOTIFY=DELAY NOTIFY=DELAY"})
    BOOST_TEST(why(parse_rcpt(std::string("TO:<c@d> ") + bad, kAll, false)) == "bad parameter syntax: NOTIFY", bad);
  for (auto bad :
       {"ORCPT=rfc822", "ORCPT=;a", "ORCPT=rfc822;a+00b", "ORCPT=rfc822;a+zz", "ORCPT=rfc822;a ORCPT=rfc822;a"})
    BOOST_TEST(why(parse_rcpt(std::string("TO:<c@d> ") + bad, kAll, false)) == "bad parameter syntax: ORCPT", bad);
  for (auto good : {"ORCPT=utf-8;andr\\x{E9}@d", "ORCPT=UTF-8;c@d"})
    BOOST_TEST(parse_rcpt(std::string("TO:<c@d> ") + good, kAll, false).has_value(), good);
  const std::string utf8 = "TO:<c@d> ORCPT=utf-8;andr\xc3\xa9@d";
  BOOST_TEST(why(parse_rcpt(utf8, kAll, false)) == "bad parameter syntax: ORCPT");
  BOOST_REQUIRE(parse_rcpt(utf8, kAll, true));
  BOOST_TEST(parse_rcpt(utf8, kAll, true)->orcpt == "utf-8;andr\xc3\xa9@d");
  for (auto bad : {"ORCPT=utf-8;andr\xe9@d", "ORCPT=rfc822;andr\xc3\xa9@d", "ORCPT=utf-8;a\x01@d"})
    BOOST_TEST(why(parse_rcpt(std::string("TO:<c@d> ") + bad, kAll, true)) == "bad parameter syntax: ORCPT", bad);
  BOOST_TEST(why(parse_rcpt("TO:<>", kAll, false)) == "bad address syntax: <>");
  BOOST_TEST(why(parse_rcpt("TO:<a@b> SIZE=3", kAll, false)) == "unsupported option: SIZE=3");
  BOOST_TEST(why(parse_rcpt("TO:<\xc3\xa9@b>", kAll, false)).starts_with("non-ASCII"));
  BOOST_TEST(parse_rcpt("TO:<\xc3\xa9@b>", kAll, true).has_value());
  BOOST_TEST(parse_rcpt("to: a@b", kAll, false)->recipient == "a@b");
}

BOOST_AUTO_TEST_CASE(bdat_takes_a_count_and_perhaps_last) {
  BOOST_TEST(parse_bdat("10")->size == 10u);
  BOOST_TEST(!parse_bdat("10")->last);
  BOOST_TEST(parse_bdat("0 last")->last);
  for (auto bad : {"", "x", "-1", "1 FIRST", "1 LAST x", "1x"}) BOOST_TEST(!parse_bdat(bad), bad);
}

BOOST_AUTO_TEST_CASE(xtext_survives_the_round_trip) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  BOOST_TEST((decode_xtext(encode_xtext(all)) == all));
  // What RFC 3461 section 4 has nobody write is read: digits in lower case, and "=" as it stands.
  BOOST_TEST(decode_xtext("a+3db").value() == "a=b");
  BOOST_TEST(decode_xtext("a=b").value() == "a=b");
  BOOST_TEST(!decode_xtext("a b"));
}

BOOST_AUTO_TEST_SUITE_END()
