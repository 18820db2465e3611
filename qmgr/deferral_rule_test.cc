#include "qmgr/deferral_rule.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
namespace {
DeferralRule rule(std::string_view list) {
  auto made = deferral_rule(list, {});
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message()));
  return *std::move(made);
}
}  // namespace

BOOST_AUTO_TEST_SUITE(defer_destinations)

BOOST_AUTO_TEST_CASE(no_list_is_no_rule) { BOOST_TEST(!rule("")); }

BOOST_AUTO_TEST_CASE(names_sub_domains_addresses_and_networks_are_put_off_and_exceptions_are_not) {
  const auto r = rule("!ok.sub.example, a.example, .sub.example, 192.0.2.0/24, inline:{ {t.example=x} }");
  for (const char* name : {"a.example", "A.Example", "x.sub.example", "t.example"})
    BOOST_TEST(r(name, "") == "defer_destinations", name);
  for (const char* name : {"b.a.example", "sub.example", "ok.sub.example", "other.example"})
    BOOST_TEST(r(name, "").empty(), name);
  BOOST_TEST(!r("mx.other.example", "192.0.2.9").empty());
  BOOST_TEST(r("mx.other.example", "198.51.100.9").empty());
  BOOST_TEST(r("ok.sub.example", "192.0.2.9").empty());  // the first match decides
}

BOOST_AUTO_TEST_CASE(a_broken_table_puts_off_what_it_is_asked_about) {
  const auto r = rule("a.example, fail:test");
  BOOST_TEST(r("a.example", "") == "defer_destinations");
  BOOST_TEST(r("b.example", "").find("cannot be read") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_list_that_makes_no_sense_is_refused) {
  BOOST_TEST(!deferral_rule("192.0.2.1/24", {}).has_value());
  BOOST_TEST(!deferral_rule("unix:passwd.byname", {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
