#include "lib/mail/dsn.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/mail/expanded.h"

using namespace pen;
using namespace pen::mail;

namespace {
struct Case {
  Case() {
    original.queue_id = "4ABCD";
    original.sender = "alice@example.org";
    original.arrival = WallTime(seconds(1'700'000'000));
    original.body.size = 300;
    original.body.header_size = 100;
    DsnRecipient r;
    r.recipient.address = "nobody@example.net";
    r.status = {Action::failed, "5.1.1", "host mx.example.net[192.0.2.1] said: 550 5.1.1 no such user",
                "smtp; 550 5.1.1 no such user", "mx.example.net"};
    r.when = WallTime(seconds(1'700'000'100));
    recipients.push_back(r);
  }
  DsnReport build(DsnKind kind = DsnKind::failure) {
    DsnRequest request;
    request.kind = kind;
    request.original = &original;
    request.recipients = recipients;
    request.now = WallTime(seconds(1'700'000'200));
    request.will_retry_until = until;
    request.postmaster = postmaster;
    request.postmaster_from = postmaster.empty() ? "" : "double-bounce@mail.example.com";
    request.headers_only = !postmaster.empty();
    Random random(7);
    return build_dsn(request, settings, random);
  }
  Envelope original;
  std::vector<DsnRecipient> recipients;
  DsnSettings settings{.hostname = "mail.example.com", .origin = "example.com"};
  WallTime until{};
  std::string postmaster;
};
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

BOOST_FIXTURE_TEST_SUITE(dsn, Case)

BOOST_AUTO_TEST_CASE(a_failure_report_goes_from_the_null_sender_to_the_original_sender_without_notices) {
  const auto report = build();
  BOOST_TEST(report.envelope.sender == "");
  BOOST_REQUIRE_EQUAL(report.envelope.recipients.size(), 1U);
  BOOST_TEST(report.envelope.recipients[0].address == "alice@example.org");
  BOOST_TEST(report.envelope.recipients[0].notify == notify::kNever);
}

BOOST_AUTO_TEST_CASE(a_failure_report_has_the_fields_of_rfc_3464) {
  const auto text = build().before;
  for (const auto* line :
       {"From: Mail Delivery System <MAILER-DAEMON@example.com>\r\n", "To: alice@example.org\r\n",
        "Auto-Submitted: auto-replied\r\n", "report-type=delivery-status;", "Message-ID: <",
        "Content-Type: message/delivery-status\r\n", "Reporting-MTA: dns; mail.example.com\r\n",
        "X-Penstock-Queue-ID: 4ABCD\r\n", "X-Penstock-Sender: rfc822; alice@example.org\r\n",
        "Arrival-Date: ", "Final-Recipient: rfc822; nobody@example.net\r\n", "Action: failed\r\n", "Status: 5.1.1\r\n",
        "Remote-MTA: dns; mx.example.net\r\n", "Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n",
        "Last-Attempt-Date: ", "Content-Type: message/rfc822\r\n"})
    BOOST_TEST(has(text, line), line);
  BOOST_TEST(!has(text, "Will-Retry-Until"));
  BOOST_TEST(!has(text, "Original-Envelope-Id"));
}

BOOST_AUTO_TEST_CASE(every_line_ends_with_crlf_and_none_is_over_998_bytes) {
  recipients[0].status.text = std::string(5000, 'x') + " " + std::string(3000, 'y');
  recipients[0].status.diagnostic = "smtp; " + std::string(4000, 'z');
  const auto report = build();
  for (const auto* part : {&report.before, &report.after}) {
    std::size_t start = 0;
    while (start < part->size()) {
      const auto end = part->find('\n', start);
      BOOST_REQUIRE(end != std::string::npos);
      BOOST_REQUIRE(end > start && (*part)[end - 1] == '\r');
      BOOST_TEST(end - start <= 998U);
      start = end + 1;
    }
  }
}

BOOST_AUTO_TEST_CASE(the_whole_original_follows_unless_ret_or_size_says_header_only) {
  BOOST_TEST(build().original_bytes == 300U);
  original.ret = Ret::headers;
  BOOST_TEST(build().original_bytes == 100U);
  BOOST_TEST(has(build().before, "Content-Type: text/rfc822-headers\r\n"));
  original.ret = Ret::full;
  original.body.size = settings.size_limit + 1;
  BOOST_TEST(build().original_bytes == 100U);
}

BOOST_AUTO_TEST_CASE(a_binary_original_is_returned_as_header_only) {
  original.body_type = BodyType::binary_mime;
  BOOST_TEST(build().original_bytes == 100U);
}

BOOST_AUTO_TEST_CASE(a_delay_report_says_until_when_and_returns_the_header) {
  until = WallTime(seconds(1'700'400'000));
  recipients[0].status.action = Action::deferred;
  recipients[0].status.dsn = "4.4.1";
  const auto report = build(DsnKind::delay);
  BOOST_TEST(has(report.before, "Action: delayed\r\n"));
  BOOST_TEST(has(report.before, "Will-Retry-Until: "));
  BOOST_TEST(has(report.before, "YOU DO NOT NEED TO SEND YOUR MESSAGE AGAIN"));
  BOOST_TEST(report.original_bytes == 100U);
}

BOOST_AUTO_TEST_CASE(a_success_report_tells_delivered_from_relayed) {
  recipients[0].status = {Action::relayed, "2.0.0", "250 ok", "", ""};
  BOOST_TEST(has(build(DsnKind::success).before, "Action: relayed\r\n"));
  recipients[0].status.action = Action::delivered;
  BOOST_TEST(has(build(DsnKind::success).before, "Action: delivered\r\n"));
}

BOOST_AUTO_TEST_CASE(a_report_on_a_probe_says_what_would_be_and_one_on_a_first_try_what_was) {
  recipients.push_back(recipients.front());
  recipients[1].recipient.address = "ok@example.net";
  recipients[1].status = {Action::delivered, "2.1.5", "250 2.1.5 Ok", "smtp; 250 2.1.5 Ok", "mx.example.net"};
  recipients.push_back(recipients.front());
  recipients[2].recipient.address = "later@example.net";
  recipients[2].status = {Action::deferred, "4.4.1", "connect to x: refused", {}, {}};
  original.purpose = Purpose::probe;
  const auto probe = build(DsnKind::verify);
  BOOST_TEST(has(probe.before, "Subject: Mail Delivery Status Report\r\n"));
  BOOST_TEST(has(probe.before, "<nobody@example.net>: undeliverable: host mx.example.net"));
  BOOST_TEST(has(probe.before, "<ok@example.net>: deliverable via mx.example.net: 250 2.1.5 Ok\r\n"));
  BOOST_TEST(has(probe.before, "<later@example.net>: undeliverable for now: connect to x: refused"));
  BOOST_TEST(has(probe.before,
                 "Action: deliverable\r\nStatus: 2.1.5\r\nRemote-MTA: dns; "
                 "mx.example.net\r\nDiagnostic-Code: smtp; 250 2.1.5 Ok\r\n"));
  BOOST_TEST(has(probe.before, "Action: undeliverable\r\nStatus: 5.1.1\r\n"));
  BOOST_TEST(has(probe.before, "Action: undeliverable\r\nStatus: 4.4.1\r\n"));
  BOOST_TEST(probe.original_bytes == original.body.header_size);
  original.purpose = Purpose::traced;
  const auto traced = build(DsnKind::verify);
  for (const auto* action : {"delivered", "failed", "delayed"})
    BOOST_TEST(has(traced.before, std::string("Action: ") + action + "\r\n"));
  BOOST_TEST(has(traced.before, "<later@example.net>: delayed: connect to x: refused"));
}

BOOST_AUTO_TEST_CASE(orcpt_and_envid_come_back_decoded) {
  original.envid = "QQ314159";
  recipients[0].recipient.orcpt = "rfc822;bob+2Btag@example.net";
  const auto text = build().before;
  BOOST_TEST(has(text, "Original-Envelope-Id: QQ314159\r\n"));
  BOOST_TEST(has(text, "Original-Recipient: rfc822; bob+tag@example.net\r\n"));
}

BOOST_AUTO_TEST_CASE(an_orcpt_cannot_forge_fields) {
  recipients[0].recipient.orcpt = "rfc822;x+0D+0AAction:+20delivered";
  recipients[0].status.text = "said: 550 no\r\nAction: delivered";
  const auto text = build().before;
  BOOST_TEST(!has(text, "\nAction: delivered"));
}

BOOST_AUTO_TEST_CASE(an_alias_shows_what_the_sender_wrote) {
  recipients[0].recipient.original = "sales@example.com";
  BOOST_TEST(has(build().before, "(expanded from <sales@example.com>)"));
}

BOOST_AUTO_TEST_CASE(eight_bit_originals_are_labelled_8bit) {
  original.body.eight_bit_body = true;
  auto report = build();
  BOOST_TEST((report.envelope.body_type == BodyType::eight_bit_mime));
  BOOST_TEST(has(report.before, "Content-Transfer-Encoding: 8bit\r\nMessage-ID"));
  original.ret = Ret::headers;  // the 8-bit part is not returned
  report = build();
  BOOST_TEST((report.envelope.body_type == BodyType::unspecified));
}

BOOST_AUTO_TEST_CASE(smtputf8_originals_get_the_global_forms_of_rfc_6533) {
  original.smtputf8 = true;
  recipients[0].recipient.address = "andré@example.net";
  const auto report = build();
  BOOST_TEST(report.envelope.smtputf8);
  for (const auto* part : {"report-type=global-delivery-status;", "message/global-delivery-status\r\n",
                           "Content-Type: message/global\r\n", "Final-Recipient: utf-8; andré@example.net\r\n"})
    BOOST_TEST(has(report.before, part), part);
}

BOOST_AUTO_TEST_CASE(an_smtputf8_original_that_wants_its_header_back_gets_global_headers) {
  original.smtputf8 = true;
  original.ret = Ret::headers;
  recipients[0].recipient.address = "andré@example.net";
  const auto report = build();
  BOOST_TEST(has(report.before, "\r\nContent-Type: message/global-headers\r\n"));
  BOOST_TEST(report.original_bytes == 100U);
}

BOOST_AUTO_TEST_CASE(an_orcpt_in_utf8_comes_back_as_it_was_or_escaped_in_a_plain_report) {
  original.smtputf8 = true;
  recipients[0].recipient.orcpt = "utf-8;andré+x@example.net";
  const auto plain = build();
  BOOST_TEST(!plain.envelope.smtputf8);
  BOOST_TEST(has(plain.before, "Original-Recipient: utf-8; andr\\x{E9}+x@example.net\r\n"));
  recipients[0].recipient.address = "bén@example.net";
  BOOST_TEST(has(build().before, "Original-Recipient: utf-8; andré+x@example.net\r\n"));
  recipients[0].recipient.orcpt = "utf-8;a\\x{E9}@example.net";
  BOOST_TEST(has(build().before, "Original-Recipient: utf-8; a\\x{E9}@example.net\r\n"));
}

BOOST_AUTO_TEST_CASE(without_smtputf8_eight_bit_text_never_gets_into_the_report) {
  recipients[0].recipient.address = "andr\xe9@example.net";
  recipients[0].status.text = "said: 550 \xff\xfe";
  const auto report = build();
  for (const char c : report.before) BOOST_REQUIRE(static_cast<unsigned char>(c) < 0x80);
  BOOST_TEST(!report.envelope.smtputf8);
}

BOOST_AUTO_TEST_CASE(an_ascii_only_smtputf8_message_gets_a_plain_report) {
  original.smtputf8 = true;
  const auto report = build();
  BOOST_TEST(!report.envelope.smtputf8);
  BOOST_TEST(has(report.before, "Content-Type: message/rfc822\r\n"));
}

BOOST_AUTO_TEST_CASE(reports_are_due_as_notify_says) {
  struct Row {
    std::uint8_t notify;
    bool failure, delay, success, verify = true;
  };
  for (const Row row :
       {Row{0, true, true, false}, Row{notify::kNever, false, false, false}, Row{notify::kSuccess, false, false, true},
        Row{notify::kFailure, true, false, false}, Row{notify::kDelay, false, true, false},
        Row{notify::kNever | notify::kCopy, false, false, false, false},
        Row{notify::kSuccess | notify::kFailure | notify::kDelay, true, true, true}}) {
    recipients[0].recipient.notify = row.notify;
    BOOST_TEST_CONTEXT("notify " << int(row.notify)) {
      BOOST_TEST(dsn_due(DsnKind::failure, original, recipients).size() == (row.failure ? 1U : 0U));
      BOOST_TEST(dsn_due(DsnKind::delay, original, recipients).size() == (row.delay ? 1U : 0U));
      BOOST_TEST(dsn_due(DsnKind::success, original, recipients).size() == (row.success ? 1U : 0U));
      BOOST_TEST(dsn_due(DsnKind::verify, original, recipients).size() == (row.verify ? 1U : 0U));
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_ever_due_to_the_null_sender) {
  original.sender = "";
  recipients[0].recipient.notify = notify::kFailure;
  BOOST_TEST(dsn_due(DsnKind::failure, original, recipients).empty());
}

BOOST_AUTO_TEST_CASE(the_postmaster_gets_the_header_from_a_sender_whose_mail_causes_no_notice) {
  postmaster = "postmaster";
  for (const char* sender : {"alice@example.org", ""}) {
    original.sender = sender;
    const auto report = build();
    BOOST_TEST(report.envelope.sender == "double-bounce@mail.example.com");
    BOOST_TEST(report.envelope.recipients.at(0).address == "postmaster");
    BOOST_TEST(report.original_bytes == 100U);
    BOOST_TEST(has(report.before, "\r\nSubject: Postmaster Copy: Undelivered Mail\r\n"));
    BOOST_TEST(has(report.before, "\r\nTo: postmaster@example.com\r\n"));
    BOOST_TEST(has(report.before, "X-Penstock-Sender: ") == !original.sender.empty());
  }
}

BOOST_AUTO_TEST_CASE(the_text_of_the_template_is_not_in_a_copy_for_the_postmaster) {
  settings.templates = builtin_notice_templates();
  const auto first_line = [&] {
    const auto& text = settings.templates.failure.text;
    return text.substr(0, text.find('\n'));
  };
  BOOST_REQUIRE(!first_line().empty());
  BOOST_TEST(has(build().before, first_line()));
  postmaster = "postmaster";
  const auto copy = build().before;
  BOOST_TEST(!has(copy, first_line()));
  // The sender's address and the reason of the failure are still there.
  BOOST_TEST(has(copy, "\r\n<" + recipients[0].recipient.address + ">"));
}

BOOST_AUTO_TEST_CASE(the_fields_of_our_own_are_named_after_mail_name) {
  settings.mail_name = "Mail Works 2!";
  recipients[0].status.diagnostic.clear();
  const auto text = build().before;
  BOOST_TEST(has(text, "\r\nX-MailWorks2-Queue-ID: 4ABCD\r\n"));
  BOOST_TEST(has(text, "\r\nDiagnostic-Code: X-MailWorks2; host "));
}

BOOST_AUTO_TEST_CASE(a_notice_is_in_the_thread_of_the_original_where_that_is_asked_for) {
  original.message_id = "<m1@example.org>";
  BOOST_TEST(!has(build().before, "In-Reply-To"));
  settings.threaded = true;
  BOOST_TEST(has(build().before, "\r\nIn-Reply-To: <m1@example.org>\r\nReferences: <m1@example.org>\r\n"));
  original.message_id = "none";
  BOOST_TEST(!has(build().before, "In-Reply-To"));
}

BOOST_AUTO_TEST_CASE(templates_give_subject_sender_text_and_character_set) {
  settings.templates.failure = {.charset = "iso-8859-1",
                                .from = "Post Office <post>",
                                .subject =
                                    "Zur\xfc"
                                    "ck",
                                .postmaster_subject = {},
                                .text =
                                    "Gr\xfc\xdf"
                                    "e\n\nvon hier\n"};
  auto report = build();
  for (const auto* part : {"\r\nFrom: Post Office <post@example.com>\r\n",
                           "Content-Type: text/plain; charset=iso-8859-1\r\n"
                           "Content-Transfer-Encoding: 8bit\r\n\r\nGr\xfc\xdf"
                           "e\r\n\r\nvon hier\r\n"})
    BOOST_TEST(has(report.before, part), part);
  BOOST_TEST((report.envelope.body_type == BodyType::eight_bit_mime));
  settings.plain.failure.text = "plain words\n";
  // Addresses in UTF-8 cannot stand beside a text in this character set.
  original.smtputf8 = true;
  recipients[0].recipient.address = "andr\u00e9@example.net";
  report = build();
  BOOST_TEST(has(report.before, "Subject: Undelivered Mail Returned to Sender\r\n"));
  BOOST_TEST(has(report.before, "\r\n\r\nplain words\r\n"));
  settings.templates.failure.charset = "utf-8";
  settings.templates.failure.text = "Gr\u00fc\u00dfe\n";
  BOOST_TEST(has(build().before, "charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n"));
}

BOOST_AUTO_TEST_SUITE_END()
