#include "lib/hints/file.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::hints;

namespace {

constexpr std::size_t kMap = 1 << 20;

struct Fixture {
  std::string put(const File& file, std::string key, std::string value, bool commit = true) {
    Transaction t(file, Transaction::write);
    if (t.begun() != 0) return file.error(t.begun()).error().message();
    MDB_val k = val(key), v = val(value);
    if (const int rc = ::mdb_put(t.get(), file.dbi(), &k, &v, 0); rc != 0)
      return file.error(rc).error().message();
    const int rc = commit ? t.commit() : 0;
    return rc == 0 ? std::string() : file.error(rc).error().message();
  }
  std::string get(const File& file, std::string key) {
    Transaction t(file, Transaction::read);
    MDB_val k = val(key), v{};
    return ::mdb_get(t.get(), file.dbi(), &k, &v) == 0 ? std::string(view(v)) : "nothing";
  }
  /// The second page, which says where everything is, loses its sense.
  void damage() {
    std::fstream data(path + "/data.mdb", std::ios::in | std::ios::out | std::ios::binary);
    data.write(std::string(8192, 'x').data(), 8192);
  }
  testing::ScratchDir scratch;
  std::string path = scratch.file("hints");
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(file_of_hints, Fixture)

BOOST_AUTO_TEST_CASE(what_was_committed_is_there_when_it_is_opened_again_and_nothing_else) {
  {
    auto file = File::open(path, kMap);
    BOOST_REQUIRE(file.has_value());
    BOOST_TEST(put(**file, "a", "1") == "");
    BOOST_TEST(put(**file, "b", "2", false) == "");
  }
  auto file = File::open(path, kMap);
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(get(**file, "a") == "1");
  BOOST_TEST(get(**file, "b") == "nothing");
}

BOOST_AUTO_TEST_CASE(a_tool_reads_beside_the_writer_and_makes_nothing) {
  auto none = File::open_to_read(path, kMap, File::Check::yes);
  BOOST_REQUIRE(!none.has_value());
  BOOST_TEST(none.error().is_errno(ENOENT));
  BOOST_TEST(!std::filesystem::exists(path));
  {
    auto file = File::open(path, kMap);
    BOOST_REQUIRE(file.has_value());
    BOOST_TEST(put(**file, "a", "1") == "");
  }
  auto reader = File::open_to_read(path, kMap, File::Check::yes);
  BOOST_REQUIRE(reader.has_value());
  BOOST_TEST(get(**reader, "a") == "1");
  BOOST_TEST(put(**reader, "a", "2") != "");
}

BOOST_AUTO_TEST_CASE(damage_is_told_set_aside_and_begun_anew) {
  for (int round = 0; round < 2; ++round) {  // the second takes the place of what was set aside
    BOOST_TEST(put(**File::open(path, kMap), "a", "1") == "");
    damage();
    auto broken = File::open(path, kMap);
    BOOST_REQUIRE(!broken.has_value());
    BOOST_TEST(broken.error().is(FileError::damaged));
    std::string warning;
    auto anew = open_or_begin_anew(path, "only hints are lost", warning,
                                   [&] { return File::open(path, kMap); });
    BOOST_REQUIRE(anew.has_value());
    BOOST_TEST(warning.ends_with("; set aside as " + path + ".damaged; only hints are lost"));
    BOOST_TEST(get(**anew, "a") == "nothing");
    BOOST_TEST(std::filesystem::exists(path + ".damaged/data.mdb"));
  }
}

BOOST_AUTO_TEST_CASE(a_full_file_is_no_damage) {
  auto file = File::open(path, 64 * 1024);
  BOOST_REQUIRE(file.has_value());
  std::string said;
  for (int i = 0; i < 1000 && said.empty(); ++i)
    said = put(**file, std::to_string(i), std::string(1000, 'x'));
  BOOST_TEST(said.find("MDB_MAP_FULL") != std::string::npos);
  BOOST_TEST(lmdb_error(MDB_MAP_FULL, "file").error().is(FileError::failed));
}

BOOST_AUTO_TEST_SUITE_END()
