#include "lib/map/log_level.h"

#include <boost/test/unit_test.hpp>

using namespace pen;

namespace {

std::string level(std::string_view tables, std::string_view name, std::string_view address, bool parents = false) {
  const auto maps = map::MapList::open(tables);
  BOOST_TEST_REQUIRE(maps.has_value());
  const auto found = map::find_log_level(*maps, name, address, parents, 1);
  return found ? std::to_string(*found) : "error";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(log_level)

BOOST_AUTO_TEST_CASE(the_name_comes_first_then_its_parents_then_the_address_and_its_networks) {
  const std::string tables = "inline:{ mx.example.org=2, .example.net=3, 192.0.2.7=4, 198.51.100=0 }";
  BOOST_TEST(level(tables, "mx.example.org", "192.0.2.7") == "2");
  BOOST_TEST(level(tables, "mx.example.net", "192.0.2.7") == "3");
  BOOST_TEST(level(tables, "elsewhere.example", "192.0.2.7") == "4");
  BOOST_TEST(level(tables, "", "198.51.100.9") == "0");
  BOOST_TEST(level(tables, "elsewhere.example", "203.0.113.1") == "1");
}

BOOST_AUTO_TEST_CASE(parent_domain_matches_subdomains_takes_the_dot_away) {
  BOOST_TEST(level("inline:{ example.org=3 }", "mx.example.org", "") == "1");
  BOOST_TEST(level("inline:{ example.org=3 }", "mx.example.org", "", true) == "3");
}

BOOST_AUTO_TEST_CASE(dunno_ends_the_search_and_nonsense_is_an_error) {
  BOOST_TEST(level("inline:{ mx.example.org=Dunno, 192.0.2.7=4 }", "mx.example.org", "192.0.2.7") == "1");
  BOOST_TEST(level("static:5", "mx.example.org", "") == "error");
  BOOST_TEST(level("static:much", "mx.example.org", "") == "error");
  BOOST_TEST(level("fail:broken", "mx.example.org", "") == "error");
}

BOOST_AUTO_TEST_SUITE_END()
