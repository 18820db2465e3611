#include "penevents/request.h"

#include <boost/test/unit_test.hpp>

namespace pen::penevents {
namespace {

using events::Type;

BOOST_AUTO_TEST_SUITE(request)

BOOST_AUTO_TEST_CASE(nothing_asks_for_everything) {
  for (const char* line : {"", "  ", "{}", R"({"types":[]})"}) {
    const auto asked = Request::parse(line);
    BOOST_REQUIRE(asked);
    BOOST_TEST(asked->wants(Type::started, "", 1));
  }
}

BOOST_AUTO_TEST_CASE(each_member_narrows) {
  const auto asked = Request::parse(R"({"types":["bounced","deferred"],"queue_id":"4ABC","since":17})");
  BOOST_REQUIRE(asked);
  BOOST_TEST(asked->wants(Type::bounced, "4ABC", 18));
  BOOST_TEST(!asked->wants(Type::bounced, "4ABC", 17));
  BOOST_TEST(!asked->wants(Type::delivered, "4ABC", 18));
  BOOST_TEST(!asked->wants(Type::bounced, "4ABD", 18));
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_an_error) {
  for (const char* line :
       {"x", "[]", R"({"types":"bounced"})", R"({"types":["nothing"]})", R"({"types":[1]})", R"({"queue_id":1})",
        R"({"since":-1})", R"({"since":"1"})", R"({"until":1})", "{\"since\":1"})
    BOOST_TEST(!Request::parse(line).has_value(), line);
}

BOOST_AUTO_TEST_CASE(settings_name_types_or_all) {
  BOOST_TEST(parse_types({"all"}).value().all());
  BOOST_TEST(parse_types({"tls", "order"}).value().count() == 2U);
  BOOST_TEST(parse_types({"tls", "x"}).error() == "x");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
