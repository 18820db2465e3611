#include "dmarcrpt/report.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::dmarcrpt;

namespace {

const Submitter kFrom{"mx.test.example", "Test & Co", "postmaster@test.example", "reports@test.example"};

DomainDay day() {
  DomainDay out;
  out.day = 20000;
  out.domain = "a.example";
  out.published = {.domain = "a.example",
                   .policy = "reject",
                   .subdomains = "quarantine",
                   .missing = {},
                   .strict_dkim = true,
                   .percent = 50};
  Facts f;
  f.source_ip = "192.0.2.7";
  f.disposition = "none";
  f.override_type = "local_policy";
  f.override_comment = "<b>&\x01";
  f.header_from = "a.example";
  f.envelope_from = "b.example";
  f.signatures = {{"a.example", "s1", "fail"}};
  f.spf_domain = "b.example";
  f.spf_scope = "mfrom";
  f.spf_result = "pass";
  out.rows = {{f, 3}};
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dmarcrpt_report)

BOOST_AUTO_TEST_CASE(the_report_has_the_elements_in_the_order_of_the_schema) {
  const std::string xml = report_xml(day(), kFrom);
  const char* const expected[] = {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feedback>",
                                  "<version>1.0</version>",
                                  "<report_metadata>",
                                  "<org_name>Test &amp; Co</org_name>",
                                  "<email>postmaster@test.example</email>",
                                  "<report_id>2024-10-04.a.example@mx.test.example</report_id>",
                                  "<begin>1728000000</begin>",
                                  "<end>1728086399</end>",
                                  "<policy_published>",
                                  "<domain>a.example</domain>",
                                  "<adkim>s</adkim>",
                                  "<aspf>r</aspf>",
                                  "<p>reject</p>",
                                  "<sp>quarantine</sp>",
                                  "<pct>50</pct>",
                                  "<record>",
                                  "<source_ip>192.0.2.7</source_ip>",
                                  "<count>3</count>",
                                  "<disposition>none</disposition>",
                                  "<dkim>fail</dkim>",
                                  "<spf>fail</spf>",
                                  "<type>local_policy</type>",
                                  "<comment>&lt;b&gt;&amp;?</comment>",
                                  "<envelope_from>b.example</envelope_from>",
                                  "<header_from>a.example</header_from>",
                                  "<auth_results>",
                                  "<selector>s1</selector>",
                                  "<result>fail</result>",
                                  "<scope>mfrom</scope>",
                                  "<result>pass</result>",
                                  "</feedback>"};
  std::size_t from = 0;
  for (const char* element : expected) {
    const auto found = xml.find(element, from);
    BOOST_REQUIRE_MESSAGE(found != std::string::npos, element << " after byte " << from << " of\n" << xml);
    from = found;
  }
}

BOOST_AUTO_TEST_CASE(messages_without_a_row_are_told) {
  DomainDay d = day();
  BOOST_TEST(report_xml(d, kFrom).find("<error>") == std::string::npos);
  d.beyond = 12;
  BOOST_TEST(report_xml(d, kFrom).find("<error>12 more messages") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_message_names_the_report_and_carries_it) {
  Random random(1);
  const auto compressed = daily_reports::compress(report_xml(day(), kFrom));
  const std::string mail = report_mail(day(), kFrom, "dmarc@a.example", compressed, WallTime(seconds(1)), random);
  BOOST_TEST(mail.find("Subject: Report Domain: a.example\r\n Submitter: mx.test.example\r\n Report-ID: "
                       "<2024-10-04.a.example@mx.test.example>\r\n") != std::string::npos);
  BOOST_TEST(mail.find("filename=\"mx.test.example!a.example!1728000000!1728086399.xml.gz\"") != std::string::npos);
  BOOST_TEST(mail.find(daily_reports::base64_lines(compressed)) != std::string::npos);
  BOOST_TEST(mail.find("To: dmarc@a.example\r\n") != std::string::npos);
  for (std::size_t at = 0; (at = mail.find('\n', at)) != std::string::npos; ++at) BOOST_TEST(mail[at - 1] == '\r');
}

BOOST_AUTO_TEST_SUITE_END()
