#include "lib/mail/returned/feedback.h"

#include <boost/test/unit_test.hpp>

namespace pen::returned {
namespace {

BOOST_AUTO_TEST_SUITE(feedback)

BOOST_AUTO_TEST_CASE(a_report_has_what_its_fields_say) {
  const auto f = read_feedback(
      "Feedback-Type: abuse\r\nUser-Agent: SomeGenerator/1.0\r\nVersion: 1\r\nOriginal-Mail-From: "
      "<news@here.example>\r\n"
      "Original-Rcpt-To: <jo@there.example>\r\nOriginal-Rcpt-To: <al@there.example>\r\n"
      "Arrival-Date: Thu, 8 Mar 2026 14:00:00 EDT\r\nReporting-MTA: dns; mail.there.example\r\nSource-IP: 192.0.2.1\r\n"
      "Authentication-Results: mail.there.example;\r\n spf=fail smtp.mail=news@here.example\r\n"
      "Reported-Domain: here.example\r\nReported-Uri: http://here.example/x\r\nIncidents: 3\r\n");
  BOOST_REQUIRE(f);
  BOOST_CHECK(f->type == FeedbackType::abuse);
  BOOST_TEST(f->user_agent == "SomeGenerator/1.0");
  BOOST_TEST(f->mail_from == "news@here.example");
  BOOST_CHECK(f->recipients == (std::vector<std::string>{"jo@there.example", "al@there.example"}));
  BOOST_TEST(f->source_ip == "192.0.2.1");
  BOOST_CHECK(f->domains == std::vector<std::string>{"here.example"});
  BOOST_TEST(f->arrival == "Thu, 8 Mar 2026 14:00:00 EDT");
  BOOST_TEST(f->reporting_mta == "mail.there.example");
  BOOST_TEST(f->incidents == 3U);
}

BOOST_AUTO_TEST_CASE(a_failed_authentication_is_a_report_of_its_own) {
  const auto f = read_feedback(
      "Feedback-Type: auth-failure\nUser-Agent: x\nAuth-Failure: dmarc\nDelivery-Result: reject\nSource-IP: "
      "IPv6:2001:db8::1\n");
  BOOST_REQUIRE(f);
  BOOST_TEST(feedback_name(f->type) == "auth-failure");
  BOOST_TEST(f->auth_failure == "dmarc");
  BOOST_TEST(f->delivery_result == "reject");
  BOOST_TEST(f->source_ip == "2001:db8::1");
}

BOOST_AUTO_TEST_CASE(unknown_types_are_other_and_none_is_no_report) {
  BOOST_CHECK(read_feedback("Feedback-Type: newest-fashion\n")->type == FeedbackType::other);
  BOOST_CHECK(read_feedback("Feedback-Type: Not-Spam (said the reader)\n")->type == FeedbackType::not_spam);
  BOOST_TEST(!read_feedback("User-Agent: x\nVersion: 1\n"));
}

BOOST_AUTO_TEST_CASE(an_address_that_is_none_is_left_out) {
  BOOST_TEST(read_feedback("Feedback-Type: abuse\nSource-IP: [192.0.2.9]\n")->source_ip == "192.0.2.9");
  BOOST_TEST(read_feedback("Feedback-Type: abuse\nSource-IP: x;drop\n")->source_ip.empty());
}

BOOST_AUTO_TEST_CASE(the_null_sender_and_redacted_recipients_are_taken_as_they_are) {
  const auto f =
      read_feedback("Feedback-Type: abuse\nOriginal-Mail-From: <>\nOriginal-Rcpt-To: redacted@there.example\n");
  BOOST_TEST(f->mail_from.empty());
  BOOST_TEST(f->recipients.at(0) == "redacted@there.example");
}

BOOST_AUTO_TEST_CASE(repeated_fields_are_bounded) {
  std::string text = "Feedback-Type: abuse\n";
  for (int i = 0; i < 300; ++i) text += "Original-Rcpt-To: a@x\nReported-Domain: x\n";
  BOOST_TEST(read_feedback(text)->recipients.size() == kMostRecipients);
  BOOST_TEST(read_feedback(text)->domains.size() == kMostDomains);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::returned
