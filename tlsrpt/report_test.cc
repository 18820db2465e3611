#include "tlsrpt/report.h"

#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "lib/base/base64.h"

using namespace pen;
using namespace pen::tlsrpt;

namespace {

const Submitter kUs{
    .host = "mx.us.example", .organization = "Us", .contact = "postmaster@us.example", .sender = "tls@us.example"};

DomainDay day() {
  DomainDay d;
  d.day = 20779;  // 2026-11-22
  d.domain = "them.example";
  PolicyResult dane;
  dane.type = PolicyType::tlsa;
  dane.strings = {"3 1 1 aabb"};
  dane.successes = 5326;
  dane.failures = 3;
  dane.details = {
      {ResultType::certificate_expired, "192.0.2.1", "mx.them.example", "198.51.100.2", "it \xff expired", 3}};
  d.policies = {dane};
  return d;
}

std::string expand(const std::string& compressed) {
  std::string out(100'000, '\0');
  z_stream z{};
  BOOST_REQUIRE(::inflateInit2(&z, 15 + 16) == Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  z.avail_in = static_cast<uInt>(compressed.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  BOOST_TEST(::inflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  ::inflateEnd(&z);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tlsrpt_report)

BOOST_AUTO_TEST_CASE(the_json_is_what_the_rfc_shows) {
  const auto j = nlohmann::json::parse(report_json(day(), kUs));
  BOOST_TEST(j["organization-name"] == "Us");
  BOOST_TEST(j["date-range"]["start-datetime"] == "2026-11-22T00:00:00Z");
  BOOST_TEST(j["date-range"]["end-datetime"] == "2026-11-22T23:59:59Z");
  BOOST_TEST(j["contact-info"] == "postmaster@us.example");
  BOOST_TEST(j["report-id"] == "2026-11-22.them.example@mx.us.example");
  BOOST_REQUIRE(j["policies"].size() == 1u);
  const auto& p = j["policies"][0];
  BOOST_TEST(p["policy"]["policy-type"] == "tlsa");
  BOOST_TEST(p["policy"]["policy-string"][0] == "3 1 1 aabb");
  BOOST_TEST(p["policy"]["policy-domain"] == "them.example");
  BOOST_TEST(p["summary"]["total-successful-session-count"] == 5326);
  BOOST_TEST(p["summary"]["total-failure-session-count"] == 3);
  const auto& f = p["failure-details"][0];
  BOOST_TEST(f["result-type"] == "certificate-expired");
  BOOST_TEST(f["sending-mta-ip"] == "192.0.2.1");
  BOOST_TEST(f["receiving-mx-hostname"] == "mx.them.example");
  BOOST_TEST(f["receiving-ip"] == "198.51.100.2");
  BOOST_TEST(f["failed-session-count"] == 3);
}

BOOST_AUTO_TEST_CASE(every_result_has_its_word) {
  BOOST_TEST(result_word(ResultType::starttls_not_supported) == "starttls-not-supported");
  BOOST_TEST(result_word(ResultType::certificate_host_mismatch) == "certificate-host-mismatch");
  BOOST_TEST(result_word(ResultType::sts_webpki_invalid) == "sts-webpki-invalid");
  BOOST_TEST(result_word(static_cast<ResultType>(99)) == "validation-failure");
  BOOST_TEST(policy_word(PolicyType::sts) == "sts");
}

BOOST_AUTO_TEST_CASE(the_message_carries_the_compressed_report) {
  Random random(1);
  const std::string json = report_json(day(), kUs);
  const std::string text = report_mail(day(), kUs, "r@them.example", daily_reports::compress(json), WallTime{}, random);
  for (const char* has : {"From: tls@us.example\r\n", "To: r@them.example\r\n", "TLS-Report-Domain: them.example\r\n",
                          "TLS-Report-Submitter: mx.us.example\r\n", "TLS-Required: No\r\n",
                          "Content-Type: multipart/report; report-type=\"tlsrpt\";",
                          "Subject: Report Domain: them.example\r\n Submitter: mx.us.example\r\n Report-ID: "
                          "<2026-11-22.them.example@mx.us.example>\r\n",
                          "Content-Type: application/tlsrpt+gzip\r\n",
                          "filename=\"mx.us.example!them.example!1795305600!1795391999.json.gz\"\r\n\r\n"})
    BOOST_TEST(text.find(has) != std::string::npos, has);
  const auto begin = text.find(".json.gz\"\r\n\r\n") + 13;
  std::string base64 = text.substr(begin, text.find("\r\n\r\n--", begin) - begin);
  for (std::size_t at; (at = base64.find("\r\n")) != std::string::npos;) base64.erase(at, 2);
  const auto compressed = base64_decode(base64);
  BOOST_REQUIRE(compressed.has_value());
  BOOST_TEST(expand(*compressed) == json);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find("\r\n", at);
    BOOST_REQUIRE(end != std::string::npos);
    BOOST_TEST(end - at <= 998u);
    BOOST_TEST(text.substr(at, end - at).find_first_of("\r\n") == std::string::npos);
    at = end + 2;
  }
}

BOOST_AUTO_TEST_SUITE_END()
