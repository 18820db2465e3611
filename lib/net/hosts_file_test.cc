#include "lib/net/hosts_file.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::net;
using Addresses = std::vector<std::string>;

BOOST_AUTO_TEST_SUITE(hosts_file)

BOOST_AUTO_TEST_CASE(a_name_or_alias_has_the_addresses_of_its_lines) {
  const std::string_view text =
      "# 192.0.2.1 scan.example\n"
      "127.0.0.1\tlocalhost\n"
      "  192.0.2.2   other.example scan.example\r\n"
      "2001:db8::2 SCAN.example # and 192.0.2.9 last.example\n"
      "192.0.2.2 scan.example scan.example\n"
      "fe80::1%lo scan.example\n"
      "nonsense scan.example\n"
      "192.0.2.300 scan.example\n"
      "192.0.2.4 scan.example.org\n"
      "192.0.2.5\n"
      "\n"
      "192.0.2.3 last.example";
  BOOST_TEST(hosts_addresses(text, "scan.example") == (Addresses{"192.0.2.2", "2001:db8::2"}),
             boost::test_tools::per_element());
  BOOST_TEST(hosts_addresses(text, "last.example") == Addresses{"192.0.2.3"}, boost::test_tools::per_element());
  BOOST_TEST(hosts_addresses(text, "192.0.2.5").empty());
  BOOST_TEST(hosts_addresses(text, "").empty());
  BOOST_TEST(hosts_addresses("", "scan.example").empty());
}

BOOST_AUTO_TEST_CASE(the_addresses_of_one_name_are_bounded) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "10.0." + std::to_string(i / 100) + "." + std::to_string(i % 100) + " many\n";
  BOOST_TEST(hosts_addresses(text, "many").size() == kMaxHostAddresses);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_has_none_and_one_that_cannot_be_read_is_an_error) {
  const pen::testing::ScratchDir dir;
  const std::string path = dir.file("hosts");
  auto none = read_hosts_file(path, "a.example");
  BOOST_REQUIRE(none);
  BOOST_TEST(none->empty());
  std::ofstream(path) << "192.0.2.1 a.example\n";
  auto one = read_hosts_file(path, "a.example");
  BOOST_REQUIRE(one);
  BOOST_TEST(*one == Addresses{"192.0.2.1"}, boost::test_tools::per_element());
  BOOST_TEST(!read_hosts_file(dir.path().string(), "a.example"));
  std::ofstream(path) << std::string(kMaxHostsFile + 1, '\n');
  BOOST_TEST(!read_hosts_file(path, "a.example"));
}

BOOST_AUTO_TEST_SUITE_END()
