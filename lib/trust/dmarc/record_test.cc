#include "lib/trust/dmarc/record.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::dmarc;

BOOST_AUTO_TEST_SUITE(dmarc_record)

BOOST_AUTO_TEST_CASE(a_record_is_taken_apart) {
  const auto r = Record::parse(
      "v=DMARC1; p=reject; sp=quarantine;np = none; adkim=s; aspf=S;pct=20; t=y; psd=n; rua=mailto:a@x.example; fo=1");
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_CHECK(r->policy == Policy::reject);
  BOOST_CHECK(r->subdomains == Policy::quarantine);
  BOOST_CHECK(r->missing == Policy::none);
  BOOST_TEST(r->strict_dkim);
  BOOST_TEST(r->strict_spf);
  BOOST_TEST(r->percent == 20u);
  BOOST_TEST(r->testing);
  BOOST_CHECK(r->public_suffix == Record::PublicSuffix::no);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_passed_over) {
  const auto r = Record::parse("v=DMARC1;p=REJECT;sp=maybe;pct=many;adkim=x;;junk;psd=perhaps;x=y");
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_CHECK(r->policy == Policy::reject);
  BOOST_CHECK(!r->subdomains.has_value());
  BOOST_TEST(!r->strict_dkim);
  BOOST_TEST(r->percent == 100u);
  BOOST_TEST(Record::parse("v=DMARC1;p=none;pct=400")->percent == 100u);
}

BOOST_AUTO_TEST_CASE(without_a_policy_a_record_with_reports_means_none) {
  const auto r = Record::parse("v=DMARC1; p=nonsense; rua=mailto:a@x.example");
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_CHECK(r->policy == Policy::none);
  for (const auto* text : {"v=DMARC1", "v=DMARC1; rua=http://x.example", "v=DMARC1; p=nonsense", "v=dmarc1; p=none",
                           "p=none; v=DMARC1", "v=DMARC12; p=none", "", ";", "v=spf1 -all"})
    BOOST_TEST(!Record::parse(text).has_value(), text);
  BOOST_TEST(!Record::parse("v=DMARC1; p=none; x=" + std::string(Record::kMaxSize, 'x')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
