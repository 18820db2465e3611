#include "lib/mail/returned/delivery_status.h"

#include <boost/test/unit_test.hpp>

namespace pen::returned {
namespace {

BOOST_AUTO_TEST_SUITE(delivery_status)

BOOST_AUTO_TEST_CASE(a_recipient_has_what_his_fields_say) {
  const auto n = read_delivery_status(
      "Reporting-MTA: dns; mx.there.example\r\nOriginal-Envelope-ID: list+7\r\n"
      "Arrival-Date: Fri, 27 Nov 2026 01:02:03 +0000\r\n\r\n"
      "Original-Recipient: rfc822;jo@there.example\r\nFinal-Recipient: RFC822; <joan@inner.there.example>\r\n"
      "Action: Failed\r\nStatus: 5.2.2 (mailbox full)\r\nRemote-MTA: dns; inner.there.example\r\n"
      "Diagnostic-Code: smtp; 552 5.2.2 <joan@inner.there.example>:\r\n over\r\n\tquota\r\n\r\n"
      "Final-Recipient: rfc822; al@there.example\r\nAction: delayed\r\nStatus: 4.4.1\r\n");
  BOOST_REQUIRE(n);
  BOOST_TEST(n->reporting_mta == "mx.there.example");
  BOOST_TEST(n->envid == "list+7");
  BOOST_REQUIRE(n->recipients.size() == 2U);
  const ReturnedRecipient first{.original = "jo@there.example",
                                .final = "joan@inner.there.example",
                                .action = Action::failed,
                                .status = "5.2.2",
                                .diagnostic = "552 5.2.2 <joan@inner.there.example>: over quota",
                                .remote_mta = "inner.there.example"};
  BOOST_CHECK(n->recipients[0] == first);
  BOOST_TEST(n->recipients[0].address() == "jo@there.example");
  BOOST_TEST(n->recipients[1].address() == "al@there.example");
  BOOST_CHECK(n->recipients[1].action == Action::delayed);
}

BOOST_AUTO_TEST_CASE(empty_lines_may_be_missing_or_too_many) {
  const auto n = read_delivery_status(
      "\n\nReporting-MTA: dns; m\nFinal-Recipient: rfc822; a@x\nAction: failed\nStatus: 5.1.1\n"
      "Final-Recipient: rfc822; b@x\nAction: failed\nStatus: 5.1.2\n\n\n\nFinal-Recipient: rfc822; c@x\nAction: "
      "failed\n");
  BOOST_REQUIRE(n);
  BOOST_REQUIRE(n->recipients.size() == 3U);
  BOOST_TEST(n->recipients[0].status == "5.1.1");
  BOOST_TEST(n->recipients[1].status == "5.1.2");
  BOOST_TEST(n->recipients[2].status == "5.0.0");  // the action says no more
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_taken_from_the_rest) {
  const auto n = read_delivery_status(
      "Final-Recipient: rfc822; a@x\nAction: failed\nStatus: x\nDiagnostic-Code: smtp; 550-5.7.26 no sender\n\n"
      "Final-Recipient: rfc822; b@x\nStatus: 4.2.1\n\nFinal-Recipient: rfc822; c@x\n\nAction: failed\nStatus: 5.0.0\n");
  BOOST_REQUIRE(n);
  BOOST_REQUIRE(n->recipients.size() == 2U);  // nothing is said of c, and of a recipient without an address
  BOOST_TEST(n->recipients[0].status == "5.7.26");
  BOOST_CHECK(n->recipients[1].action == Action::delayed);
}

BOOST_AUTO_TEST_CASE(an_address_in_a_diagnostic_is_no_status) {
  const auto n = read_delivery_status(
      "Final-Recipient: rfc822; a@x\nAction: failed\nDiagnostic-Code: smtp; 550 host 5.9.1.20 says no (#5.1.1)\n");
  BOOST_REQUIRE(n);
  BOOST_TEST(n->recipients[0].status == "5.1.1");
}

BOOST_AUTO_TEST_CASE(a_part_without_recipients_is_no_notice) {
  BOOST_TEST(!read_delivery_status(""));
  BOOST_TEST(!read_delivery_status("Reporting-MTA: dns; x\n\n"));
  BOOST_TEST(!read_delivery_status("nothing that has a colon\n\nhere"));
}

BOOST_AUTO_TEST_CASE(recipients_and_texts_are_bounded) {
  std::string text = "Reporting-MTA: dns; x\n\n";
  for (int i = 0; i < 250; ++i)
    text += "Final-Recipient: rfc822; a" + std::to_string(i) + "@x\nAction: failed\nDiagnostic-Code: smtp; " +
            std::string(2000, 'y') + "\n\n";
  const auto n = read_delivery_status(text);
  BOOST_REQUIRE(n);
  BOOST_TEST(n->recipients.size() == kMostRecipients);
  BOOST_TEST(n->more == 250 - kMostRecipients);
  BOOST_TEST(n->recipients[0].diagnostic.size() == kMaxText);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::returned
