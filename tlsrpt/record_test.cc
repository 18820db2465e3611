#include "tlsrpt/record.h"

#include <boost/test/unit_test.hpp>

using namespace pen::tlsrpt;

namespace {
/// The targets of some records: "mail tls@a; https https://…".
std::string read(const std::vector<std::string>& texts) {
  std::string out;
  for (const auto& t : read_records(texts))
    out += (out.empty() ? "" : "; ") + std::string(t.kind == Target::Kind::mail ? "mail " : "https ") + t.value;
  return out;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(tlsrpt_record)

BOOST_AUTO_TEST_CASE(both_kinds_of_targets_are_read) {
  BOOST_TEST(read({"v=TLSRPTv1;rua=mailto:reports@example.com"}) == "mail reports@example.com");
  BOOST_TEST(read({"v=TLSRPTv1; rua=https://reporting.example.com/v1/tlsrpt;"}) ==
             "https https://reporting.example.com/v1/tlsrpt");
  BOOST_TEST(read({"v=TLSRPTv1 ; rua = mailto:a@b.example , https://c.example/d ; x=y"}) ==
             "mail a@b.example; https https://c.example/d");
}

BOOST_AUTO_TEST_CASE(other_records_do_not_count_and_two_are_none) {
  const std::string good = "v=TLSRPTv1; rua=mailto:a@b.example";
  BOOST_TEST(read({"v=spf1 -all", good}) == "mail a@b.example");
  BOOST_TEST(read({good, good}) == "");
  BOOST_TEST(read({"v=TLSRPTv2; rua=mailto:a@b.example"}) == "");
  BOOST_TEST(read({"v=TLSRPTv1"}) == "");
  BOOST_TEST(read({"v=TLSRPTv10; rua=mailto:a@b.example"}) == "");
  BOOST_TEST(read({" v=TLSRPTv1; rua=mailto:a@b.example"}) == "");
  BOOST_TEST(read({}) == "");
}

BOOST_AUTO_TEST_CASE(what_is_no_plain_address_or_url_is_passed_over) {
  for (const char* uri : {"http://a.example/", "https:///x", "mailto:", "mailto:a", "mailto:@b", "mailto:a@",
                          "mailto:a@b@c", "mailto:a%0d%0aX:@b.example", "mailto:%3ca@b.example%3e", "mailto:a%2",
                          "mailto:a%2cb@c.example", "ftp://a.example", "mailto:a\x80@b.example"})
    BOOST_TEST(read({"v=TLSRPTv1; rua=" + std::string(uri)}) == "", uri);
  BOOST_TEST(read({"v=TLSRPTv1; rua=mailto:a%2Bb@c.example?subject=x"}) == "mail a+b@c.example");
  BOOST_TEST(read({"v=TLSRPTv1; rua=x:y,mailto:a@b.example"}) == "mail a@b.example");
}

BOOST_AUTO_TEST_CASE(targets_are_bounded_and_named_once) {
  std::string many = "v=TLSRPTv1; rua=mailto:a@b.example";
  for (int i = 0; i < 50; ++i) many += ",mailto:a@b.example,mailto:a" + std::to_string(i) + "@b.example";
  BOOST_TEST(read_records({many}).size() == kMaxTargets);
  BOOST_TEST(read({"v=TLSRPTv1; rua=https://a.example/" + std::string(kMaxTarget, 'x')}) == "");
  BOOST_TEST(read({"v=TLSRPTv1; rua=mailto:a@b.example; rua=mailto:c@d.example"}) == "mail a@b.example");
}

BOOST_AUTO_TEST_SUITE_END()
