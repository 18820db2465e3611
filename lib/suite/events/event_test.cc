#include "lib/suite/events/event.h"

#include <boost/test/unit_test.hpp>

namespace pen::events {
namespace {

const WallTime kTime{microseconds(1'800'000'000'123'456)};

BOOST_AUTO_TEST_SUITE(event)

BOOST_AUTO_TEST_CASE(what_is_told_is_what_is_seen) {
  std::string blob;
  Event(Type::delivered, kTime)
      .text(Field::queue_id, "4ABC")
      .text(Field::helo, "")
      .number(Field::size, 70'000)
      .number(Field::nrcpt, 0)
      .duration(Field::delay, microseconds(-5))
      .append_to(blob);
  Event(Type::order, kTime).text(Field::action, std::string("a\0b", 3)).append_to(blob);
  std::string_view rest = blob;
  const auto first = next(rest);
  BOOST_REQUIRE(first);
  BOOST_TEST((first->type == Type::delivered));
  BOOST_TEST((first->time == kTime));
  BOOST_TEST(first->values.size() == 2U);  // an empty text, a 0 and a negative delay are left out
  BOOST_TEST(first->text(Field::queue_id) == "4ABC");
  BOOST_TEST(first->number(Field::size) == 70'000U);
  const auto second = next(rest);
  BOOST_REQUIRE(second);
  BOOST_TEST(second->text(Field::action) == std::string("a\0b", 3));
  BOOST_TEST(!next(rest));
  BOOST_TEST(rest.empty());
}

BOOST_AUTO_TEST_CASE(texts_and_events_are_bounded) {
  Event e(Type::rejected, kTime);
  const std::string large(100'000, 'x');
  for (std::size_t f = 0; f < static_cast<std::size_t>(Field::kEnd); ++f)
    if (kind_of(static_cast<Field>(f)) == Kind::text) e.text(static_cast<Field>(f), large);
  BOOST_TEST(e.bytes().size() <= kMaxEvent);
  std::string blob;
  e.append_to(blob);
  std::string_view rest = blob;
  const auto seen = next(rest);
  BOOST_REQUIRE(seen);
  BOOST_TEST(seen->text(Field::queue_id).size() == kMaxText);
}

BOOST_AUTO_TEST_CASE(a_torn_or_false_blob_ends_the_reading) {
  std::string blob;
  Event(Type::delivered, kTime).text(Field::queue_id, "4ABC").append_to(blob);
  for (std::size_t cut = 1; cut < blob.size(); ++cut) {
    std::string_view rest = std::string_view(blob).substr(0, cut);
    BOOST_TEST(!next(rest));
    BOOST_TEST(!rest.empty());
  }
  std::string_view endless = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
  BOOST_TEST(!next(endless));
}

BOOST_AUTO_TEST_CASE(types_and_fields_of_a_later_version_are_passed_over) {
  // length 6, type 100, time 1, field 124 as a text "x"
  std::string blob = "\x06\x64\x01\xF9\x01\x01x";
  blob += "\x06";
  blob += static_cast<char>(Type::order);
  blob += "\x01\xF9\x01\x01x";
  std::string_view rest = blob;
  const auto seen = next(rest);
  BOOST_REQUIRE(seen);
  BOOST_TEST((seen->type == Type::order));
  BOOST_TEST(seen->values.empty());
}

BOOST_AUTO_TEST_CASE(types_have_names) {
  BOOST_TEST(name_of(Type::auth_failed) == "auth_failed");
  BOOST_TEST((type_named("bounced") == Type::bounced));
  BOOST_TEST(!type_named("nothing"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::events
