#include "trivial-rewrite/login_keys.h"

#include <boost/test/unit_test.hpp>

namespace pen::rewrite {
namespace {

LoginKeys keys(const std::string& table, bool by_sender = false) {
  return {.sender_dependent = by_sender, .maps = map::MapList::open(table).value(), .delimiters = "+"};
}

BOOST_AUTO_TEST_SUITE(login_keys)

BOOST_AUTO_TEST_CASE(the_host_comes_before_the_next_hop_and_the_port_counts) {
  const auto k = keys(
      "inline:{ {mx.a.example = u:1} {b.example = u:2} {[c.example]:587 = u:3} {empty.example =} "
      "}");
  const auto find = [&](std::string_view hop, std::string_view host) {
    return k.find("s@x.example", hop, host).value();
  };
  BOOST_TEST(find("a.example", "mx.a.example") == "mx.a.example");
  BOOST_TEST(find("b.example", "mx.a.example") == "mx.a.example");
  BOOST_TEST(find("b.example", "mx.b.example") == "b.example");
  BOOST_TEST(find("[c.example]:587", "c.example") == "[c.example]:587");
  BOOST_TEST(find("[c.example]:25", "c.example") == "");
  BOOST_TEST(find("[c.example]", "c.example") == "");
  BOOST_TEST(find("empty.example", "empty.example") == "");
  BOOST_TEST(LoginKeys().find("s@x.example", "b.example", "b.example").value() == "");
}

BOOST_AUTO_TEST_CASE(the_sender_comes_first_where_it_is_asked_for) {
  const std::string table =
      "inline:{ {anna@a.example = u:1} {@b.example = u:2} {mx.example = u:3} {s@x.example = u:4} }";
  const auto k = keys(table, true);
  BOOST_TEST(k.find("anna@a.example", "hop", "mx.example").value() == "anna@a.example");
  BOOST_TEST(k.find("anna+tag@a.example", "hop", "mx.example").value() == "anna@a.example");
  BOOST_TEST(k.find("any@b.example", "hop", "mx.example").value() == "@b.example");
  BOOST_TEST(k.find("any@c.example", "hop", "mx.example").value() == "mx.example");
  BOOST_TEST(k.find("", "hop", "mx.example").value() == "mx.example");
  BOOST_TEST(keys(table).find("anna@a.example", "hop", "mx.example").value() == "mx.example");
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_asked_is_no_answer) {
  BOOST_TEST(!keys("fail:always").find("s@x.example", "hop", "mx.example"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::rewrite
