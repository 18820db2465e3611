#include "qmgr/delivery_limits.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
namespace {
std::string shown(std::string_view text) {
  const auto l = parse_limit(text);
  return l ? shaping::to_string(l->rate) + " " + std::to_string(l->connections) : "none";
}
}  // namespace

BOOST_AUTO_TEST_SUITE(limits_of_deliveries)

BOOST_AUTO_TEST_CASE(a_limit_is_a_rate_connections_or_both) {
  BOOST_TEST(shown("rate=10/m") == "10/m 0");
  BOOST_TEST(shown(" connections=5,rate=2/s ") == "2/s 5");
  for (const char* wrong : {"", "10/m", "rate=", "rate=10", "connections=0", "connections=x", "rate=1/s rate=2/s",
                            "connections=100001", "speed=3"})
    BOOST_TEST(shown(wrong) == "none", wrong);
}

BOOST_AUTO_TEST_CASE(delivery_limit_maps_are_asked_by_kind_and_name) {
  const auto limit = delivery_limits(
      "inline:{ {provider:big = rate=10/m}, {tenant:a.example = connections=2}, "
      "{domain:x = nonsense} }",
      {});
  BOOST_REQUIRE(limit);
  BOOST_TEST(shaping::to_string((*limit)("provider:big").rate) == "10/m");
  BOOST_TEST((*limit)("tenant:a.example").connections == 2U);
  BOOST_TEST(((*limit)("domain:x") == ShapingOptions::Limit{}));
  BOOST_TEST(((*limit)("domain:big") == ShapingOptions::Limit{}));
  BOOST_TEST(!*delivery_limits("", {}));
  BOOST_TEST(!delivery_limits("tcp:127.0.0.1:1", {}));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::qmgr
