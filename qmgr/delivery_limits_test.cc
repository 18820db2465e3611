#include "qmgr/delivery_limits.h"

#include <boost/test/unit_test.hpp>

#include <fstream>

#include "lib/queue/shaping/rules_file.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(limits_of_deliveries)

BOOST_AUTO_TEST_CASE(the_example_that_is_shipped_is_switched_off_and_limits_providers_that_are_known) {
  std::ifstream file("conf/main.cf");
  std::string list;
  for (std::string line; std::getline(file, line);) {
    BOOST_TEST(!line.starts_with("delivery_limit_maps"));
    if (line.starts_with("#delivery_limit_maps = "))
      list = line.substr(line.find("inline:"));
    else if (!list.empty() && line.starts_with("#  {"))
      list += line.substr(1);
    else if (!list.empty())
      break;
  }
  const auto limit = delivery_limits(list, {});
  BOOST_REQUIRE(limit);
  const auto rules = shaping::read_rules_files({"conf/shaping.rules"});
  BOOST_REQUIRE(rules);
  std::size_t named = 0;
  for (std::size_t at = list.find("provider:"); at != std::string::npos; at = list.find("provider:", at + 1)) {
    const std::string name = list.substr(at, list.find(' ', at) - at);
    BOOST_TEST(rules->provider(name.substr(9)) != nullptr, name);
    BOOST_TEST((*limit)(name).connections > 0U, name);
    ++named;
  }
  BOOST_TEST(named == 11U);
}

BOOST_AUTO_TEST_CASE(delivery_limit_maps_are_asked_by_kind_and_name) {
  const auto limit = delivery_limits(
      "inline:{ {provider:big = rate=10/m}, {provider:huge = rate=20/s,5000/h}, {tenant:a.example = connections=2}, "
      "{domain:x = nonsense} }",
      {});
  BOOST_REQUIRE(limit);
  BOOST_TEST(to_string((*limit)("provider:big").rates) == "10/m");
  BOOST_TEST(to_string((*limit)("provider:huge").rates) == "20/s,5000/h");
  BOOST_TEST((*limit)("tenant:a.example").connections == 2U);
  BOOST_TEST(((*limit)("domain:x") == ShapingOptions::Limit{}));
  BOOST_TEST(((*limit)("domain:big") == ShapingOptions::Limit{}));
  BOOST_TEST(!*delivery_limits("", {}));
  BOOST_TEST(!delivery_limits("tcp:127.0.0.1:1", {}));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::qmgr
