#include "lib/queue/queue_log/seen_messages.h"

#include <boost/test/unit_test.hpp>

#include <string>

namespace pen::queue_log {

BOOST_AUTO_TEST_SUITE(queue_log_seen_messages)

BOOST_AUTO_TEST_CASE(each_id_has_one_record_found_again_and_listed_in_order) {
  SeenMessages seen;
  BOOST_TEST(seen.find("nobody", 7) == nullptr);
  // Hashes that meet often, in their low half and as a whole: ids are told apart all the same.
  const auto hash = [](std::uint32_t i) { return std::uint64_t{i} << 40U | (i % 1000) / 3; };
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const std::string id = "id" + std::to_string(i);  // dies: the record has its own
    auto& made = seen.of(id, hash(i));
    made.newest_delivery = i;
    made.copies.push_back({.position = {1, i}, .generation = i, .replaces = {}});
    made.deliveries.push_back({});
  }
  BOOST_REQUIRE_EQUAL(seen.in_order().size(), 5000U);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const std::string id = "id" + std::to_string(i);
    auto& again = seen.of(id, hash(i));
    BOOST_TEST(&again == seen.in_order()[i]);
    BOOST_TEST(&again == seen.find(id, hash(i)));
    BOOST_TEST(again.queue_id == id);
    BOOST_TEST(again.newest_delivery == i);
    BOOST_TEST(again.copies.size() == 1U);
  }
  BOOST_TEST(seen.in_order().size() == 5000U);
  BOOST_TEST(seen.find("id5000", hash(5)) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::queue_log
