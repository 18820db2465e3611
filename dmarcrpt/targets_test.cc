#include "dmarcrpt/targets.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::dmarcrpt;

BOOST_AUTO_TEST_SUITE(dmarcrpt_targets)

BOOST_AUTO_TEST_CASE(addresses_are_read_with_their_sizes) {
  const auto all =
      read_rua(" mailto:a@b.example!10m , https://c.example/x, mailto:d%21e@f.example,mailto:g@h.example!5k");
  BOOST_REQUIRE(all.size() == 3u);
  BOOST_TEST((all[0] == Rua{"a@b.example", 10u << 20}));
  BOOST_TEST((all[1] == Rua{"d!e@f.example", 0}));
  BOOST_TEST((all[2] == Rua{"g@h.example", 5u << 10}));
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_passed_over_and_the_number_is_bounded) {
  BOOST_TEST(read_rua("").empty());
  BOOST_TEST(read_rua("mailto:,mailto:x,a@b.example,mailto:a%0a@b.example").empty());
  BOOST_TEST(read_rua("mailto:a@b.example!99999999999t")[0].max_size == 0u);
  BOOST_TEST(read_rua("mailto:a@b.example!10q")[0].max_size == 0u);
  BOOST_TEST(read_rua("mailto:a@b.example,mailto:a@b.example").size() == 1u);
  std::string many;
  for (int i = 0; i < 50; ++i) many += "mailto:a" + std::to_string(i) + "@b.example,";
  BOOST_TEST(read_rua(many).size() == kMaxTargets);
}

BOOST_AUTO_TEST_CASE(who_is_outside_must_consent) {
  const auto suffixes = dmarc::Suffixes::parse("example\nco.example\n").value();
  BOOST_TEST(!is_outside("a@B.example", "b.example", suffixes.get()));
  BOOST_TEST(!is_outside("a@reports.b.example", "b.example", nullptr));
  BOOST_TEST(!is_outside("a@b.example", "news.b.example", suffixes.get()));
  BOOST_TEST(is_outside("a@b.example", "news.b.example", nullptr));
  BOOST_TEST(is_outside("a@c.example", "b.example", suffixes.get()));
  BOOST_TEST(is_outside("a@x.co.example", "y.co.example", suffixes.get()));
  BOOST_TEST(is_outside("a@notb.example", "b.example", nullptr));
  BOOST_TEST(consent_name("B.example", "a@C.example") == "b.example._report._dmarc.c.example");
  BOOST_TEST(consents({"something", "v=DMARC1"}));
  BOOST_TEST(!consents({"v=spf1 -all"}));
  BOOST_TEST(!consents({}));
}

BOOST_AUTO_TEST_SUITE_END()
