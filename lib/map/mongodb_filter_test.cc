// Where a key may stand in the filter of a mongodb: table, and that no key gets out of there.
#include "lib/map/mongodb_filter.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "lib/map/key_template.h"

using namespace pen;
using namespace pen::map;
using nlohmann::json;

namespace {

/// The filter with a key in it; "(none)": the key cannot stand there.
std::string filled(const std::string& filter, std::string_view key) {
  return KeyTemplate::parse(filter, "query_filter")->expand(KeyParts(key), quote_in_filter).value_or("(none)");
}

BOOST_AUTO_TEST_SUITE(mongodb_filter)

BOOST_AUTO_TEST_CASE(a_key_is_one_string_in_the_document_whatever_it_is) {
  const std::string filter = R"({"$or": [{"user": "%s"}, {"alias.address": "<%s>"}], "active": 1, "in": ["%s"]})";
  const json plain = json::parse(filled(filter, "key"));
  for (const std::string_view key :
       {"key", "\"", "\\", "\\\"", "\"}, {\"user\": {\"$ne\": null}", "x\", \"$where\": \"1", "\\u0022", "\n\t\x01\x1f",
        "{\"$ne\": \"\"}", "$user", "$$ROOT", "j\xc3\xbcrgen@x.org", "\x7f", "'", "/*", "]}", "%s", "\xe2\x80\xa8"}) {
    json document = json::parse(filled(filter, key));
    BOOST_TEST(document["$or"][0]["user"] == std::string(key));
    BOOST_TEST(document["$or"][1]["alias.address"] == "<" + std::string(key) + ">");
    BOOST_TEST(document["in"][0] == std::string(key));
    document["$or"] = plain["$or"];
    document["in"] = plain["in"];
    BOOST_TEST((document == plain));
  }
  BOOST_TEST(filled(filter, std::string_view("a\0b", 3)) == "(none)");
}

BOOST_AUTO_TEST_CASE(a_key_cannot_stand_where_it_would_be_more_than_a_value) {
  for (const char* good :
       {R"({"a": "%s"})", R"({"a": {"$eq": "%s"}})", R"({"a": {"$in": ["x", "%s"]}})", R"({"a,b": "{%s}"})",
        R"({"a": {"$not": {"$eq": "%s"}}})", R"({"a": 1, "b": "\"%s"})", R"({"$expr": {"$eq": [1, 1]}, "a": "%s"})",
        R"({"a": {"$elemMatch": {"b": "%s", "c": {"$gt": 1}}}})", R"({"a": [{"x": 1}, {"y": "%s"}]})"})
    BOOST_TEST(filled(good, "key") != "(none)", good);
  for (const char* bad :
       {"%s", R"("%s")", R"({"a": %s})", R"({"%s": 1})", R"({"a%s": 1})", R"({"b": 1, "%s": 1})", R"({"a": "x\\"%s})",
        R"({"$where": "this.a == '%s'"})", R"({"\u0024where": "%s"})", R"({"a": {"$regex": "^%s$"}})",
        R"({"a": {"$not": {"$regex": "%s"}}})", R"({"$expr": {"$eq": ["$a", "%s"]}})", R"({"_id": {"$oid": "%s"}})",
        R"({"$text": {"$search": "%s"}})", R"({"a": "x"}} "%s")", R"({"a": "\%s"})", R"({"a": "\u00%s"})",
        R"({"a": {"$function": {"body": "%s"}}})"})
    BOOST_TEST(filled(bad, "key") == "(none)", bad);
  BOOST_TEST(filled(std::string(200, '[') + "\"%s\"", "key") == "(none)");
  BOOST_TEST(misplaced_in_filter(R"({"a": )").contains("between double quotes"));
  BOOST_TEST(misplaced_in_filter(R"({"$where": ")").contains("below $where"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
