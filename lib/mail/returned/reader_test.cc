#include "lib/mail/returned/reader.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "lib/base/check.h"

namespace pen::returned {
namespace {

/// Notices as Postfix 3.7, Exim 4.96 and our own bounce write them, and others; the seeds of the fuzz target.
std::string file(const std::string& name) {
  std::ifstream in("fuzz/corpus/returned_mail/" + name, std::ios::binary);
  PEN_CHECK(in.good(), "no such file");
  return {std::istreambuf_iterator<char>(in), {}};
}

Report read(std::string_view content, std::size_t step = std::string::npos) {
  Reader reader;
  for (std::size_t at = 0; at < content.size(); at += std::min(step, content.size() - at))
    reader.feed(content.substr(at, step));
  return reader.finish();
}

std::string crlf(std::string_view text) {
  std::string out;
  for (const char c : text) (c == '\n' ? out += '\r' : out) += c;
  return out;
}

void is_gone_of_far(const Report& report) {
  BOOST_REQUIRE(report.notice);
  BOOST_REQUIRE(report.notice->recipients.size() == 1U);
  const auto& r = report.notice->recipients[0];
  BOOST_TEST(r.address() == "gone@far.example");
  BOOST_CHECK(r.action == Action::failed);
  BOOST_TEST(r.status == "5.1.1");
  BOOST_TEST(r.diagnostic.contains("550 5.1.1 no such user here"));
  BOOST_TEST(report.original.message_id == "<news1@lists.example>");
  BOOST_TEST(report.original.from == "Owner <owner-list@lists.example>");
}

BOOST_AUTO_TEST_SUITE(reader)

BOOST_AUTO_TEST_CASE(a_notice_of_postfix) {
  const Report report = read(file("postfix.eml"));
  is_gone_of_far(report);
  BOOST_TEST(report.notice->recipients[0].original == "gone@far.example");
  BOOST_TEST(report.notice->reporting_mta == "peer.example");
  BOOST_TEST(report.original.return_path == "owner-list+gone=far.example@lists.example");
}

BOOST_AUTO_TEST_CASE(a_notice_of_exim_whose_status_says_less_than_the_diagnostic) {
  is_gone_of_far(read(file("exim.eml")));
}

BOOST_AUTO_TEST_CASE(a_notice_of_our_own) {
  const Report report = read(file("own.eml"));
  is_gone_of_far(report);
  BOOST_TEST(report.notice->reporting_mta == "mx.here.example");
}

BOOST_AUTO_TEST_CASE(notices_that_are_only_text) {
  const Report exim = read(file("exim_text.eml"));
  BOOST_REQUIRE(exim.notice);
  BOOST_CHECK(exim.notice->form == Form::exim);
  BOOST_TEST(exim.notice->recipients.at(1).address() == "al@far.example");
  const Report qmail = read(file("qmail.eml"));
  BOOST_REQUIRE(qmail.notice);
  BOOST_CHECK(qmail.notice->form == Form::qmail);
  BOOST_TEST(qmail.original.message_id == "<m1@here.example>");
}

BOOST_AUTO_TEST_CASE(a_feedback_report_with_the_message_it_is_about) {
  const Report report = read(file("rfc5965.eml"));
  BOOST_REQUIRE(report.feedback);
  BOOST_TEST(!report.notice);
  BOOST_CHECK(report.feedback->type == FeedbackType::abuse);
  BOOST_TEST(report.feedback->mail_from == "owner-list+jo=there.example@here.example");
  BOOST_TEST(report.original.message_id == "8787KJKJ3K4J3K4J3K4J3.mail@here.example");
  BOOST_TEST(report.original.to == "<Undisclosed Recipients>");
}

BOOST_AUTO_TEST_CASE(a_report_in_base_64_with_a_header_only) {
  const Report report = read(file("rfc6591.eml"));
  BOOST_REQUIRE(report.feedback);
  BOOST_TEST(report.feedback->auth_failure == "bodyhash");
  BOOST_TEST(report.original.message_id == "<m7@here.example>");
  BOOST_TEST(report.original.return_path == "x@here.example");
}

BOOST_AUTO_TEST_CASE(however_the_content_is_cut_the_result_is_the_same) {
  for (const auto* name : {"postfix.eml", "exim.eml", "own.eml", "exim_text.eml", "qmail.eml", "rfc5965.eml"})
    for (const std::size_t step : {1U, 7U, 100U}) {
      const Report whole = read(file(name)), cut = read(file(name), step);
      BOOST_REQUIRE(whole.parsed() && cut.parsed());
      if (whole.notice) BOOST_CHECK(whole.notice->recipients == cut.notice->recipients);
      BOOST_TEST(whole.original.message_id == cut.original.message_id);
    }
}

BOOST_AUTO_TEST_CASE(a_report_inside_of_what_came_back_is_not_ours) {
  // A forwarded notice, and a notice about a notice.
  const std::string inner = file("postfix.eml");
  BOOST_TEST(!read(crlf("Content-Type: message/rfc822\n\n") + inner).parsed());
  BOOST_TEST(!read(crlf("Content-Type: multipart/mixed; boundary=outer\n\n--outer\nContent-Type: text/plain\n\nlook\n"
                        "--outer\nContent-Type: message/rfc822\n\n") +
                   inner + crlf("\n--outer--\n"))
                  .parsed());
  const Report outer = read(crlf("Content-Type: multipart/report; boundary=outer\n\n--outer\n"
                                 "Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\n"
                                 "Final-Recipient: rfc822; outer@x\nAction: failed\nStatus: 5.1.1\n\n--outer\n"
                                 "Content-Type: message/rfc822\n\n") +
                            inner + crlf("\n--outer--\n"));
  BOOST_REQUIRE(outer.notice);
  BOOST_TEST(outer.notice->recipients.at(0).address() == "outer@x");
  BOOST_TEST(outer.original.message_id.starts_with("<2026"));  // of the notice that came back
}

BOOST_AUTO_TEST_CASE(a_notice_that_somebody_wraps_into_parts_is_found) {
  const std::string inner = file("postfix.eml");
  const auto type = inner.find("Content-Type: multipart/report");
  BOOST_TEST(read(crlf("Content-Type: multipart/mixed; boundary=outer\n\n--outer\n") + inner.substr(type) +
                  crlf("\n--outer--\n"))
                 .parsed());
}

BOOST_AUTO_TEST_CASE(ordinary_mail_is_no_report) {
  BOOST_TEST(!read("").parsed());
  BOOST_TEST(!read(crlf("Subject: hello\n\nHi. This is the text.\n")).parsed());
  BOOST_TEST(!read(crlf("Content-Type: multipart/report; boundary=b\n\n--b\n\ntext\n--b--\n")).parsed());
}

BOOST_AUTO_TEST_CASE(what_is_behind_the_header_that_came_back_is_not_wanted) {
  const std::string content = file("postfix.eml");
  const auto end = content.find("\r\nHello");
  Reader reader;
  reader.feed(std::string_view(content).substr(0, end));
  BOOST_TEST(reader.wants_more());
  reader.feed(std::string_view(content).substr(end));
  BOOST_TEST(!reader.wants_more());
  is_gone_of_far(reader.finish());
}

BOOST_AUTO_TEST_CASE(content_without_an_end_is_bounded) {
  Reader reader;
  reader.feed(crlf("Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n"));
  const std::string line = std::string(70, 'x') + "\r\n";
  std::size_t fed = 0;
  while (reader.wants_more()) {
    reader.feed(line);
    fed += line.size();
  }
  BOOST_TEST(fed <= Reader::kMostBytes + line.size());
  BOOST_TEST(!reader.finish().parsed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::returned
