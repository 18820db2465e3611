#include "lib/base/lmdb/hints.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::lmdb;

namespace {

constexpr std::size_t kMap = 1 << 20;

struct Fixture {
  std::unique_ptr<Database> open() {
    auto database = open_hints(path, kMap);
    BOOST_REQUIRE(database.has_value());
    return *std::move(database);
  }
  static Result<void> put(const Database& database, std::string_view key, std::string_view value) {
    PEN_TRY_ASSIGN(Write write, Write::begin(database));
    PEN_TRY(write.put(key, value));
    return write.commit();
  }
  static std::string get(const Database& database, std::string_view key) {
    const auto read = Read::begin(database);
    BOOST_REQUIRE(read.has_value());
    const auto value = read->get(key);
    BOOST_REQUIRE(value.has_value());
    return *value ? std::string(**value) : "nothing";
  }
  /// Keys and values from `from` on, at most `most`; a final dot says that there are no more.
  static std::string all(const Read& read, std::string_view from = {}, std::size_t most = 100) {
    std::string out;
    const auto end = read.each(from, [&](std::string_view key, std::string_view value) {
      if (most-- == 0) return false;
      out += std::string(key) + "=" + std::string(value) + " ";
      return true;
    });
    BOOST_REQUIRE(end.has_value());
    return out + (*end ? "." : "");
  }
  /// Destroys the second page, which holds the places of everything else.
  void damage() {
    std::fstream data(path + "/data.mdb", std::ios::in | std::ios::out | std::ios::binary);
    data.write(std::string(8192, 'x').data(), 8192);
  }
  testing::ScratchDir scratch;
  std::string path = scratch.file("hints");
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(databases_of_hints, Fixture)

BOOST_AUTO_TEST_CASE(what_was_committed_is_there_when_it_is_opened_again_and_nothing_else) {
  {
    const auto database = open();
    BOOST_TEST(put(*database, "a", "1").has_value());
    auto write = Write::begin(*database);
    BOOST_REQUIRE(write.has_value());
    BOOST_TEST(write->put("b", "2").has_value());
    BOOST_TEST(all(*write) == "a=1 b=2 .");
  }
  BOOST_TEST(get(*open(), "a") == "1");
  BOOST_TEST(get(*open(), "b") == "nothing");
}

BOOST_AUTO_TEST_CASE(entries_come_in_the_order_of_their_keys_from_any_key_on) {
  const auto database = open();
  for (const char* key : {"c", "a", "e"}) BOOST_TEST(put(*database, key, "1").has_value());
  auto write = Write::begin(*database);
  BOOST_REQUIRE(write.has_value());
  BOOST_TEST(write->erase("a").has_value());
  BOOST_TEST(write->erase("not there").has_value());
  BOOST_TEST(write->put("d", "2").has_value());
  BOOST_TEST(write->commit().has_value());
  const auto read = Read::begin(*database);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(all(*read) == "c=1 d=2 e=1 .");
  BOOST_TEST(all(*read, "d") == "d=2 e=1 .");
  BOOST_TEST(all(*read, "cc") == "d=2 e=1 .");
  BOOST_TEST(all(*read, "f") == ".");
  BOOST_TEST(all(*read, "c", 2) == "c=1 d=2 ");
  BOOST_TEST(all(*read, "d", 2) == "d=2 e=1 .");
}

BOOST_AUTO_TEST_CASE(a_reader_sees_the_moment_of_its_beginning) {
  const auto database = open();
  BOOST_TEST(put(*database, "a", "1").has_value());
  const auto before = Read::begin(*database);
  BOOST_REQUIRE(before.has_value());
  BOOST_TEST(put(*database, "a", "2").has_value());
  BOOST_TEST(all(*before) == "a=1 .");
  BOOST_TEST(get(*database, "a") == "2");
}

BOOST_AUTO_TEST_CASE(a_tool_reads_beside_the_writer_and_makes_nothing) {
  const auto none = open_hints_to_read(path, kMap, Check::yes);
  BOOST_REQUIRE(!none.has_value());
  BOOST_TEST(none.error().is_errno(ENOENT));
  BOOST_TEST(!std::filesystem::exists(path));
  BOOST_TEST(put(*open(), "a", "1").has_value());
  const auto reader = open_hints_to_read(path, kMap, Check::yes);
  BOOST_REQUIRE(reader.has_value());
  BOOST_TEST(get(**reader, "a") == "1");
  BOOST_TEST(!put(**reader, "a", "2").has_value());
}

BOOST_AUTO_TEST_CASE(damage_is_told_set_aside_and_begun_anew) {
  for (int round = 0; round < 2; ++round) {  // the second round replaces what the first set aside
    BOOST_TEST(put(*open(), "a", "1").has_value());
    damage();
    const auto broken = open_hints(path, kMap);
    BOOST_REQUIRE(!broken.has_value());
    BOOST_TEST(broken.error().is(DatabaseError::damaged));
    std::string warning;
    const auto anew = open_or_begin_anew(path, "only hints are lost", warning, [&] { return open_hints(path, kMap); });
    BOOST_REQUIRE(anew.has_value());
    BOOST_TEST(warning.ends_with("; set aside as " + path + "/damaged; only hints are lost"));
    BOOST_TEST(get(**anew, "a") == "nothing");
    BOOST_TEST(std::filesystem::exists(path + "/damaged/data.mdb"));
  }
}

BOOST_AUTO_TEST_CASE(the_library_need_not_lengthen_a_lock_file) {
  // Programs that have one may not. It would be shorter if the library had made it.
  const auto database = open();
  BOOST_TEST(std::filesystem::file_size(path + "/lock.mdb") == 16384U);
  BOOST_TEST(put(*database, "a", "1").has_value());
  BOOST_TEST(get(*database, "a") == "1");
}

BOOST_AUTO_TEST_CASE(a_full_file_is_no_damage) {
  const auto database = open_hints(path, 64 * 1024);
  BOOST_REQUIRE(database.has_value());
  Result<void> said;
  for (int i = 0; i < 1000 && said; ++i) said = put(**database, std::to_string(i), std::string(1000, 'x'));
  BOOST_REQUIRE(!said.has_value());
  BOOST_TEST(said.error().is(DatabaseError::full));
  BOOST_TEST(said.error().context().starts_with(path + ": MDB_MAP_FULL"));
}

BOOST_AUTO_TEST_SUITE_END()
