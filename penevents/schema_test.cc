// docs/events.schema.json and the description of penapi, against the table of events.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/suite/events/event.h"

namespace pen::penevents {
namespace {

using nlohmann::json;

json read(const char* path) {
  std::ifstream in(path);
  BOOST_REQUIRE_MESSAGE(in, path);
  return json::parse(in);
}

/// The fields as JSON has them.
std::set<std::string> fields() {
  std::set<std::string> out{"id", "time", "type", "host", "program", "service", "pid", "reply_code", "delays"};
  for (unsigned i = 0; i < static_cast<unsigned>(events::Field::kEnd); ++i) {
    const auto field = static_cast<events::Field>(i);
    if (field == events::Field::transport) continue;  // nobody tells it: its number stays
    const std::string name(events::name_of(field));
    if (!name.starts_with("delay_")) out.insert(name);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(event_schema)

BOOST_AUTO_TEST_CASE(every_type_and_field_is_described_and_no_other) {
  const json schema = read("docs/events.schema.json");
  std::set<std::string> described, listed;
  for (const auto& one : schema["oneOf"]) listed.insert(one["$ref"].get<std::string>());
  for (unsigned i = 0; i < static_cast<unsigned>(events::Type::kEnd); ++i) {
    const std::string name(events::name_of(static_cast<events::Type>(i)));
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(listed.erase("#/definitions/" + name) == 1U);
      BOOST_REQUIRE(schema["definitions"].contains(name));
      const json& type = schema["definitions"][name];
      BOOST_TEST(type["additionalProperties"] == false);
      BOOST_TEST(type["properties"]["type"]["const"] == name);
      for (const auto& [field, form] : type["properties"].items()) described.insert(field);
      for (const auto& field : type["required"]) BOOST_TEST(type["properties"].contains(field.get<std::string>()));
    }
  }
  BOOST_TEST(listed.empty());
  BOOST_TEST(described == fields(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(penapi_describes_the_same_fields_and_types) {
  const json event = read("conf/penapi-openapi.json")["components"]["schemas"]["Event"];
  std::set<std::string> described, types, all;
  for (const auto& [field, form] : event["properties"].items())
    if (field != "transport") described.insert(field);
  for (const auto& type : event["properties"]["type"]["enum"]) types.insert(type.get<std::string>());
  for (unsigned i = 0; i < static_cast<unsigned>(events::Type::kEnd); ++i)
    all.emplace(events::name_of(static_cast<events::Type>(i)));
  BOOST_TEST(described == fields(), boost::test_tools::per_element());
  BOOST_TEST(types == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::penevents
