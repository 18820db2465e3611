#include "lib/suite/sessions/classes.h"

#include <boost/test/unit_test.hpp>

namespace pen::sessions {
namespace {

Classes classes(std::string_view text) {
  auto parsed = Classes::parse(text);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error()));
  return *std::move(parsed);
}
std::string mask_of(const Classes& c, std::string_view name, std::string_view address) {
  const auto found = c.find(name, address);
  return found ? c.list()[*found].mask : "none";
}

BOOST_AUTO_TEST_SUITE(session_classes)

BOOST_AUTO_TEST_CASE(the_example_of_the_design_is_read_in_order) {
  const Classes c = classes("*.customer.fr 8 8, 192.0.2.0/24 20 10,\n  * 3 3");
  BOOST_REQUIRE_EQUAL(c.list().size(), 3U);
  BOOST_TEST(c.list()[1].mask == "192.0.2.0/24");
  BOOST_TEST(c.list()[1].total == 20U);
  BOOST_TEST(c.list()[1].refuse == 10U);
  BOOST_TEST(mask_of(c, "mx.customer.fr", "192.0.2.7") == "*.customer.fr");  // the first that fits
  BOOST_TEST(mask_of(c, "mx.other.fr", "192.0.2.7") == "192.0.2.0/24");
  BOOST_TEST(mask_of(c, "mx.other.fr", "198.51.100.1") == "*");
  BOOST_TEST(c.catches_all());
}

BOOST_AUTO_TEST_CASE(a_domain_takes_its_hosts_and_itself_and_no_other) {
  const Classes c = classes("*.insa-lyon.fr 8 3, grasp.hsc-sec.fr 2 2");
  BOOST_TEST(mask_of(c, "grasp.insa-lyon.fr", "192.0.2.1") == "*.insa-lyon.fr");
  BOOST_TEST(mask_of(c, "a.b.Insa-Lyon.FR.", "192.0.2.1") == "*.insa-lyon.fr");
  BOOST_TEST(mask_of(c, "insa-lyon.fr", "192.0.2.1") == "*.insa-lyon.fr");
  BOOST_TEST(mask_of(c, "not-insa-lyon.fr", "192.0.2.1") == "none");
  BOOST_TEST(mask_of(c, "grasp.hsc-sec.fr", "192.0.2.1") == "grasp.hsc-sec.fr");
  BOOST_TEST(mask_of(c, "x.grasp.hsc-sec.fr", "192.0.2.1") == "none");
  BOOST_TEST(mask_of(c, "unknown", "192.0.2.1") == "none");
  BOOST_TEST(mask_of(c, "", "192.0.2.1") == "none");
  BOOST_TEST(!c.catches_all());
}

BOOST_AUTO_TEST_CASE(addresses_and_networks_of_both_families_fit) {
  const Classes c = classes("192.0.2.9 1 1, 2001:db8::/32 2 2, [2001:db9::1] 3 3, 198.51.100.0/25 4 4");
  BOOST_TEST(mask_of(c, "", "192.0.2.9") == "192.0.2.9");
  BOOST_TEST(mask_of(c, "", "::ffff:192.0.2.9") == "192.0.2.9");
  BOOST_TEST(mask_of(c, "", "192.0.2.10") == "none");
  BOOST_TEST(mask_of(c, "", "2001:db8:1::7") == "2001:db8::/32");
  BOOST_TEST(mask_of(c, "", "2001:db9::1") == "[2001:db9::1]");
  BOOST_TEST(mask_of(c, "", "198.51.100.127") == "198.51.100.0/25");
  BOOST_TEST(mask_of(c, "", "198.51.100.128") == "none");
}

BOOST_AUTO_TEST_CASE(loopback_belongs_to_a_class_only_by_a_mask_that_names_it) {
  const Classes all = classes("* 3 3");
  for (const auto* address : {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", ""})
    BOOST_TEST(mask_of(all, "localhost", address) == "none");
  BOOST_TEST(!all.names_loopback());
  BOOST_TEST(!classes("*.customer.fr 8 8, 10.0.0.0/8 1 1").names_loopback());

  const Classes network = classes("127.0.0.0/30 1 1, ::1 2 2, * 3 3");
  BOOST_TEST(mask_of(network, "localhost", "127.0.0.1") == "127.0.0.0/30");
  BOOST_TEST(mask_of(network, "localhost", "127.0.0.9") == "none");
  BOOST_TEST(mask_of(network, "localhost", "::1") == "::1");
  BOOST_TEST(network.names_loopback());
  BOOST_TEST(classes("0.0.0.0/0 1 1").names_loopback());
  BOOST_TEST(classes("127.5.0.0/16 1 1").names_loopback());
  BOOST_TEST(classes("::/0 1 1").names_loopback());

  const Classes name = classes("localhost 1 1, * 3 3");
  BOOST_TEST(mask_of(name, "localhost", "127.0.0.1") == "localhost");
  BOOST_TEST(name.names_loopback());
}

BOOST_AUTO_TEST_CASE(no_text_is_no_classes) {
  BOOST_TEST(classes("").empty());
  BOOST_TEST(classes(" \n ").empty());
  BOOST_TEST(!classes("").find("a.example", "192.0.2.1"));
  BOOST_TEST(!classes("").catches_all());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_told_with_the_entry_it_is_in) {
  const std::pair<const char*, const char*> wrong[] = {
      {"* 3", "entry 1 (\"* 3\"): three words"},
      {"*.customer.fr 8 8 * 3 3", "a comma is needed between two entries"},
      {"a.fr 1 1, , * 3 3", "entry 2: is empty"},
      {"a.fr 1 1,", "entry 2: is empty"},
      {"a.fr 1 1, b.fr x 3", "entry 2 (\"b.fr x 3\"): the total limit is \"x\", which is no number"},
      {"a.fr 1 -1", "the refuse limit is \"-1\", which is no number"},
      {"a.fr 0 1", "the total limit is 0"},
      {"a.fr 1 0", "the refuse limit is 0"},
      {"a.fr 1 1000001", "the most is 1000000"},
      {"a.fr 99999999999999999999999 1", "which is no number"},
      {"192.0.2.1/24 1 1", "has bits set beyond its mask"},
      {"192.0.2.0/33 1 1", "bad number of mask bits"},
      {"mx*.fr 1 1", "is no host name, *.domain, address, network or *"},
      {"*.*.fr 1 1", "is no host name"},
      {".customer.fr 1 1", "is no host name"},
      {"300.1.1.1 1 1", "is no host name"},
      {"* 3 3, a.fr 1 1", "entry 2 (\"a.fr 1 1\"): it stands after *"},
      {"a.fr 1 1, A.fr 2 2", "its mask is that of entry 1"},
  };
  for (const auto& [text, why] : wrong) {
    const auto parsed = Classes::parse(text);
    BOOST_REQUIRE_MESSAGE(!parsed, text);
    BOOST_TEST(parsed.error().contains(why), text << " says: " << parsed.error());
  }
}

BOOST_AUTO_TEST_CASE(a_list_without_end_is_refused) {
  std::string text;
  for (std::size_t i = 0; i <= kMaxClasses; ++i) text += "h" + std::to_string(i) + ".fr 1 1,";
  text.pop_back();
  const auto parsed = Classes::parse(text);
  BOOST_REQUIRE(!parsed);
  BOOST_TEST(parsed.error().contains("more than 1000 entries"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sessions
