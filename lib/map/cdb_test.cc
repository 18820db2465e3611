// // cdb tables: made, found, listed, changed. Damaged files are errors, never crashes. tinycdb reads and writes the
// same.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/base/random.h"
#include "lib/map/cdb_file.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::map;

BOOST_AUTO_TEST_SUITE(cdb)

namespace {

struct Tables {
  testing::ScratchDir dir;
  std::string path = dir.file("t.cdb");

  void build(const std::vector<std::pair<std::string, std::string>>& pairs, BuildOptions o = {}) {
    std::vector<TableEntry> entries;
    for (const auto& [key, value] : pairs) entries.push_back({static_cast<unsigned>(entries.size() + 1), key, value});
    BOOST_REQUIRE(build_cdb(path, entries, "t", o).has_value());
  }
  std::string find(std::string_view key) {
    const auto file = CdbFile::open(path);
    BOOST_REQUIRE(file.has_value());
    const auto value = (*file)->find(key);
    BOOST_REQUIRE(value.has_value());
    return value->value_or("(none)");
  }
  std::string bytes() {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

}  // namespace

PEN_FIXTURE(Tables)

BOOST_AUTO_TEST_CASE(what_was_written_is_found_and_nothing_else) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 5000; ++i) pairs.emplace_back("Key" + std::to_string(i), "value " + std::to_string(i));
  build(pairs);
  for (int i = 0; i < 5000; ++i) BOOST_TEST(find("key" + std::to_string(i)) == "value " + std::to_string(i));
  for (const auto* key : {"key5000", "k", "", "Key1"}) BOOST_TEST(find(key) == "(none)");
}

BOOST_AUTO_TEST_CASE(a_small_file_is_what_the_format_says_byte_for_byte) {
  build({{"one", "Hello"}});
  const auto file = bytes();
  // Header, one record of 8 + 3 + 5 bytes, one table of two slots.
  BOOST_REQUIRE_EQUAL(file.size(), 2048U + 16U + 16U);
  BOOST_TEST(file.substr(2048, 16) == std::string("\3\0\0\0\5\0\0\0oneHello", 16));
  // The hash of "one", from 5381: times 33, xor the byte; its low byte selects the table.
  std::uint32_t hash = 5381;
  for (const char c : std::string("one")) hash = (hash * 33) ^ static_cast<unsigned char>(c);
  BOOST_TEST(static_cast<unsigned char>(file[hash % 256 * 8 + 4]) == 2);
  BOOST_TEST(file.find(std::string("\0\10\0\0", 4), 2064) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_open_table_lists_changes_and_loses_keys) {
  build({{"a", "1"}, {"b", "2"}, {"a", "3"}});
  BOOST_TEST(find("a") == "1");
  build({{"c", "4"}, {"b", "5"}}, {.duplicates = BuildOptions::Duplicates::replace, .start_from_old = true});
  BOOST_TEST(find("a") + find("b") + find("c") == "154");
  const auto before = *CdbFile::open(path);
  BOOST_TEST(remove_from_cdb(path, {"A", "none"}, true).value() == 1U);
  BOOST_TEST(find("a") == "(none)");
  BOOST_TEST((*before->find("a")).value() == "1");  // a reader that has the old file open keeps reading it
  std::string all;
  BOOST_REQUIRE((*CdbFile::open(path))->each([&](std::string_view key, std::string_view value) {
    all += std::string(key) + "=" + std::string(value) + " ";
    return true;
  }));
  BOOST_TEST(all == "b=5 c=4 ");
}

BOOST_AUTO_TEST_CASE(keys_and_values_with_a_nul_at_the_end_are_found_too) {
  build({{"x", "1"}});
  // The form that Postfix writes on request: the same record, one byte longer for the key and for the value.
  std::string key("k\0", 2), file(2048, '\0');
  std::uint32_t hash = 5381;
  for (const char c : key) hash = (hash * 33) ^ static_cast<unsigned char>(c);
  const auto put = [&](std::size_t at, std::uint32_t n) {
    for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>(n >> (8 * i));
  };
  file += std::string("\2\0\0\0\2\0\0\0k\0v\0", 12);
  for (std::size_t t = 0; t < 256; ++t) put(t * 8, 2060);
  put(hash % 256 * 8 + 4, 1);
  file += std::string(8, '\0');
  put(2060, hash);
  put(2064, 2048);
  dir.write("t.cdb", file);
  BOOST_TEST(find("k") == "v");
}

BOOST_AUTO_TEST_CASE(damaged_files_are_errors_or_answers_but_never_a_crash) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 300; ++i)
    pairs.emplace_back("key" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
  build(pairs);
  const std::string good = bytes();
  Random random(20261122);
  unsigned errors = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bad = good;
    if (round % 4 == 0) bad.resize(random.below(bad.size()));
    for (int n = 0; n < 20 && !bad.empty(); ++n) bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    dir.write("t.cdb", bad);
    const auto file = CdbFile::open(path);
    if (!file) {
      ++errors;
      continue;
    }
    for (int i = 0; i < 300; i += 13) errors += (*file)->find("key" + std::to_string(i)) ? 0 : 1;
    errors += (*file)->each([](std::string_view, std::string_view) { return true; }) ? 0 : 1;
  }
  BOOST_TEST(errors > 100U);
}

BOOST_AUTO_TEST_CASE(a_cdb_table_is_opened_by_its_type_and_taken_anew_when_made_anew) {
  testing::ManualClock clock;
  build({{"Example.ORG", "smtp:"}});
  auto table = open("cdb:" + dir.file("t"), {.clock = &clock});
  BOOST_REQUIRE(table.has_value());
  BOOST_TEST((*(*table)->lookup("EXAMPLE.org")).value() == "smtp:");
  build({{"example.org", "relay:"}});
  clock.advance(seconds(2));
  BOOST_TEST((*(*table)->lookup("example.org")).value() == "relay:");
  auto missing = open("cdb:" + dir.file("none"), {.clock = &clock});
  BOOST_TEST(!(*missing)->lookup("x"));
  BOOST_TEST((*missing)->problem().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
