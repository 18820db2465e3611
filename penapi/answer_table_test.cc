// What is known of requests with an Idempotency-Key: how long, and how much.
#include "penapi/answer_table.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(answer_table)

namespace {

const WallTime kNow = WallTime(seconds(1'000'000));
Answered answer(std::size_t bytes = 10, WallTime at = kNow) {
  return {.certain = true, .digest = "d", .at = at, .queue_id = "id", .status = 202, .body = std::string(bytes, 'x')};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_answer_is_found_until_its_time_is_over) {
  AnswerTable table(100'000, seconds(60));
  const std::string key = answer_key("token", "a");
  table.put(key, answer());
  BOOST_TEST(table.find(key, kNow + seconds(59))->body == "xxxxxxxxxx");
  BOOST_TEST(table.find(key, kNow + seconds(60)) == nullptr);
  BOOST_TEST(table.take_old(kNow + seconds(59)).empty());
  BOOST_TEST(table.take_old(kNow + seconds(60)) == std::vector<std::string>{key}, boost::test_tools::per_element());
  BOOST_TEST(table.size() == 0U);
  BOOST_TEST(table.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(the_same_text_of_another_token_is_another_key) {
  AnswerTable table(100'000, seconds(60));
  table.put(answer_key("token", "a"), answer());
  BOOST_TEST(table.find(answer_key("other", "a"), kNow) == nullptr);
  BOOST_TEST(table.find(answer_key("token", "b"), kNow) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_token_has_a_quarter_and_nothing_is_forgotten_for_new_ones) {
  AnswerTable table(8'000, seconds(60));
  std::size_t kept = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = answer_key("greedy", std::to_string(i));
    if (!table.has_room(key, answer(100))) break;
    table.put(key, answer(100));
    ++kept;
  }
  BOOST_TEST(kept > 1U);
  BOOST_TEST(table.bytes() <= 2'000U);
  BOOST_TEST(table.find(answer_key("greedy", "0"), kNow) != nullptr);
  BOOST_TEST(table.has_room(answer_key("greedy", "0"), answer(100)));  // in place of what is there
  BOOST_TEST(table.has_room(answer_key("modest", "0"), answer(100)));
  for (const char* token : {"b", "c", "d", "e", "f"})
    for (int i = 0; i < 100; ++i)
      if (const auto key = answer_key(token, std::to_string(i)); table.has_room(key, answer(100)))
        table.put(key, answer(100));
  BOOST_TEST(table.bytes() <= 8'000U);
}

BOOST_AUTO_TEST_CASE(a_later_answer_takes_the_place_of_the_first) {
  AnswerTable table(100'000, seconds(60));
  const std::string key = answer_key("token", "a"), other = answer_key("token", "b");
  table.put(key, answer(10));
  table.put(other, answer(10));
  table.put(key, answer(2000, kNow + seconds(5)));
  BOOST_TEST(table.size() == 2U);
  BOOST_TEST(table.take_old(kNow + seconds(61)) == std::vector<std::string>{other}, boost::test_tools::per_element());
  table.erase(key);
  table.erase(key);
  BOOST_TEST(table.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(an_answer_survives_its_encoding) {
  const auto back = decode<Answered>(encode(answer())).value();
  BOOST_TEST(back.certain);
  BOOST_TEST(back.body == answer().body);
  BOOST_TEST(back.status == 202);
  BOOST_TEST((back.at == kNow));
}

BOOST_AUTO_TEST_SUITE_END()
