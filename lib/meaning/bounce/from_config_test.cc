#include "lib/meaning/bounce/from_config.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::bounce;

namespace {
config::Config main_cf(std::string text) {
  config::Surroundings here;
  here.hostname = "mail.example.com";
  return config::Config::parse({"/etc/pen", std::move(text), "", {}}, here);
}
}  // namespace

BOOST_AUTO_TEST_SUITE(notices_from_config)

BOOST_AUTO_TEST_CASE(the_built_in_words_are_expanded) {
  const auto t = builtin_templates(main_cf("delay_warning_time = 90m\nmail_name = Works\n"));
  BOOST_TEST(t.failure.text.starts_with("This is the mail system at host mail.example.com.\n"));
  BOOST_TEST(t.failure.text.ends_with("The mail system (Works)\n"));
  BOOST_TEST(t.delay.text.find("more than 2 hour(s)") != std::string::npos);
  BOOST_TEST(t.delay.text.find("is 5 day(s) old") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_of_templates_is_read_and_expanded) {
  const testing::ScratchDir scratch;
  const auto with = [&](const std::string& text) {
    return templates_from(main_cf(
        "mine = ours\ndelay_warning_time = 4h\nbounce_template_file = " + scratch.write("bounce.cf", text) + "\n"));
  };
  const auto t = with(
      "delay_template = <<EOF\nSubject: late\n\n"
      "$mine ${delay_warning_time_minutes} $(myhostname) $$5\nEOF\n");
  BOOST_REQUIRE_MESSAGE(t.has_value(), (t ? "" : t.error().message()));
  BOOST_TEST(t->delay.text == "ours 240 mail.example.com $5\n");
  const auto wrong = with("delay_template = <<EOF\n\n$nobody_knows\nEOF\n");
  BOOST_REQUIRE(!wrong);
  BOOST_TEST(wrong.error().message().find("delay_template: $nobody_knows: there is no setting") != std::string::npos);
  const auto broken = with("failure_template = <<EOF\n");
  BOOST_REQUIRE(!broken);
  BOOST_TEST(broken.error().message().starts_with("bounce_template_file: "));
  BOOST_TEST(!templates_from(main_cf("bounce_template_file = " + scratch.file("none") + "\n")));
}

BOOST_AUTO_TEST_CASE(the_postmaster_is_told_what_notify_classes_names) {
  const auto usual = copies_from(main_cf("").settings());
  BOOST_REQUIRE(usual);
  BOOST_TEST((usual->failures + usual->delays + usual->failing_notices).empty());
  const auto some = copies_from(main_cf("notify_classes = Bounce, delay, protocol\n"
                                        "2bounce_notice_recipient = oncall@example.com\n")
                                    .settings());
  BOOST_REQUIRE(some);
  BOOST_TEST(some->failures == "postmaster");
  BOOST_TEST(some->delays == "postmaster");
  BOOST_TEST(some->failing_notices == "oncall@example.com");
  BOOST_TEST(!copies_from(main_cf("notify_classes = bouncy\n").settings()));
}

BOOST_AUTO_TEST_CASE(notices_name_us_as_header_from_format_says) {
  BOOST_TEST(notice_form(main_cf("")).settings.from == "Mail Delivery System <MAILER-DAEMON>");
  BOOST_TEST(notice_form(main_cf("header_from_format = obsolete\n")).settings.from ==
             "MAILER-DAEMON (Mail Delivery System)");
}

BOOST_AUTO_TEST_SUITE_END()
