#include "lib/receive/triage/cache.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::triage;

namespace {

WallTime at(std::int64_t second) { return WallTime(seconds(second)); }

Record ends(std::int64_t second) {
  Record record;
  record.of(Test::pregreet) = second;
  return record;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(triage_cache)

BOOST_AUTO_TEST_CASE(what_is_put_is_found_and_written_once) {
  Cache cache;
  cache.put("192.0.2.1", ends(1000));
  cache.put("192.0.2.1", ends(2000));
  BOOST_TEST(cache.find("192.0.2.1")->of(Test::pregreet) == 2000);
  BOOST_TEST(!cache.find("192.0.2.2").has_value());
  const auto changes = cache.take_changes(10);
  BOOST_REQUIRE(changes.size() == 1U);
  BOOST_TEST(changes[0].key == "192.0.2.1");
  BOOST_TEST(*changes[0].value == "2000;0;0;0;0");
  BOOST_TEST(!cache.changed());
}

BOOST_AUTO_TEST_CASE(stored_garbage_is_no_record_and_is_removed_from_the_file) {
  Cache cache;
  const std::string good = "1;2;3;4;5";
  const std::pair<std::string, std::string> kRows[] = {
      {"192.0.2.1", ""},
      {"192.0.2.2", "1;2;3;4"},
      {"192.0.2.3", "1;2;3;4;5;6"},
      {"192.0.2.4", "1;2;-3;4;5"},
      {"192.0.2.5", "1;2;3;4;99999999999999999999999"},
      {"192.0.2.6", "a;b;c;d;e"},
      {"192.0.2.7", "1;2;3;4;5\n"},
      {"192.0.2.8", std::string(5000, '1')},
      {"192.0.2.9", std::string("\0;\0;\0;\0;\0", 9)},
      {"192.0.2.10", "9223372036854775807;2;3;4;5"},
      {"not an address", good},
      {"::FFFF:192.0.2.11", good},  // the host has another key
  };
  for (const auto& [key, value] : kRows) cache.take(key, value);
  cache.take("", good);  // no file has it
  cache.take("192.0.2.99", good);
  BOOST_TEST(cache.size() == 1U);
  BOOST_TEST(cache.find("192.0.2.99")->text() == good);
  const auto changes = cache.take_changes(100);
  BOOST_TEST(changes.size() == std::size(kRows));
  for (const auto& change : changes) BOOST_TEST(!change.value.has_value());
}

BOOST_AUTO_TEST_CASE(what_was_learnt_while_the_file_was_read_counts_first) {
  Cache cache;
  cache.put("192.0.2.1", ends(2000));
  cache.take("192.0.2.1", "1000;0;0;0;0");
  BOOST_TEST(cache.find("192.0.2.1")->of(Test::pregreet) == 2000);
}

BOOST_AUTO_TEST_CASE(a_client_is_dropped_when_its_last_pass_is_over_for_the_retention_time) {
  Cache cache;
  cache.take("192.0.2.1", "1000;1;1;1;1");
  cache.take("192.0.2.2", "1;1;1001;1;1");
  cache.take("192.0.2.3", "5000;1;1;1;1");
  const auto result = cache.drop_old(at(1101), seconds(100));
  BOOST_TEST(result.dropped == 1U);
  BOOST_TEST(result.kept == 2U);
  BOOST_TEST(!cache.find("192.0.2.1").has_value());
  const auto changes = cache.take_changes(100);
  BOOST_REQUIRE(changes.size() == 1U);
  BOOST_TEST(!changes[0].value.has_value());
}

BOOST_AUTO_TEST_CASE(a_full_cache_drops_those_that_run_out_first) {
  Cache cache(16);
  for (int i = 0; i < 16; ++i) cache.put("192.0.2." + std::to_string(i), ends(1000 + i));
  cache.put("192.0.2.100", ends(3000));
  BOOST_TEST(cache.size() <= 16U);
  BOOST_TEST(!cache.find("192.0.2.0").has_value());
  BOOST_TEST(cache.find("192.0.2.15").has_value());
  BOOST_TEST(cache.find("192.0.2.100").has_value());
}

BOOST_AUTO_TEST_CASE(a_full_cache_of_equal_times_drops_an_eighth_and_no_more) {
  Cache cache(16);
  for (int i = 0; i < 17; ++i) cache.put("192.0.2." + std::to_string(i), ends(1000));
  BOOST_TEST(cache.size() == 14U);  // 16 - (16 / 8 + 1) + 1
}

BOOST_AUTO_TEST_CASE(one_host_has_one_key) {
  BOOST_TEST(key_of("::ffff:192.0.2.1") == "192.0.2.1");
  BOOST_TEST(key_of("2001:DB8:0:0::1") == key_of("2001:db8::1"));
  BOOST_TEST(key_of("unknown").empty());
}

BOOST_AUTO_TEST_SUITE_END()
