#include "smtp/from_config.h"

#include <boost/test/unit_test.hpp>

namespace pen::smtp {

BOOST_AUTO_TEST_SUITE(smtp_from_config)

BOOST_AUTO_TEST_CASE(connections_come_from_the_one_address_of_inet_interfaces) {
  const auto bound = [](std::vector<std::string> own, std::string v4 = {}) {
    Settings s;
    s.bind_address = std::move(v4);
    bind_to_single_address(s, own);
    return s.bind_address + " " + s.bind_address6;
  };
  BOOST_TEST(bound({}) == " ");
  BOOST_TEST(bound({"192.0.2.1"}) == "192.0.2.1 ");
  BOOST_TEST(bound({"192.0.2.1", "2001:db8::1"}) == "192.0.2.1 2001:db8::1");
  BOOST_TEST(bound({"192.0.2.1", "192.0.2.2", "2001:db8::1"}) == " 2001:db8::1");
  BOOST_TEST(bound({"127.0.0.1", "::1"}) == " ");
  BOOST_TEST(bound({"127.0.0.1", "192.0.2.1"}) == " ");  // as Postfix counts
  BOOST_TEST(bound({"192.0.2.1"}, "192.0.2.9") == "192.0.2.9 ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::smtp
