#include "penevents/rotating_file.h"

#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "lib/testing/scratch.h"

namespace pen::penevents {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}
std::string unzipped(const std::string& path) {
  gzFile in = ::gzopen(path.c_str(), "rb");
  BOOST_REQUIRE(in != nullptr);
  std::string out(10'000, '\0');
  const int n = ::gzread(in, out.data(), 10'000);
  ::gzclose(in);
  out.resize(static_cast<std::size_t>(std::max(n, 0)));
  return out;
}

struct Files {
  testing::ScratchDir dir;
  std::string path = dir.file("events.json");
  WallTime now = WallTime(seconds(1'764'206'424));

  RotatingFile open(std::uint64_t size, seconds age, std::string header = {}) {
    return RotatingFile::open({.path = path, .header = std::move(header), .max_size = size, .max_age = age}, now)
        .value();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(fs::path(path).parent_path()))
      out.push_back(e.path().filename().string());
    std::ranges::sort(out);
    return out;
  }
};

BOOST_FIXTURE_TEST_SUITE(rotating_file, Files)

BOOST_AUTO_TEST_CASE(a_file_that_would_become_too_large_is_renamed_before) {
  auto file = open(10, seconds(0));
  BOOST_REQUIRE(file.append("123456\n", now));
  BOOST_TEST(!file.take_renamed());
  BOOST_REQUIRE(file.append("abcdef\n", now));
  BOOST_TEST(file.take_renamed());
  BOOST_TEST(content(path) == "abcdef\n");
  BOOST_TEST(content(path + ".20251127-012024") == "123456\n");
  BOOST_REQUIRE(file.append("x\n", now));  // of the same second: another name
  BOOST_REQUIRE(file.append("ABCDEF\n", now));
  BOOST_TEST(content(path + ".20251127-012024-0001") == "abcdef\nx\n");
}

BOOST_AUTO_TEST_CASE(an_old_file_is_renamed_and_an_empty_one_is_not) {
  auto file = open(0, seconds(60), "header\n");
  BOOST_REQUIRE(file.append("one\n", now + seconds(100)));
  BOOST_TEST(!file.take_renamed());  // it had its header only
  BOOST_REQUIRE(file.append("two\n", now + seconds(100)));
  BOOST_TEST(file.take_renamed());
  BOOST_TEST(content(path) == "header\ntwo\n");
}

BOOST_AUTO_TEST_CASE(a_file_that_somebody_moved_is_begun_anew) {
  auto file = open(0, seconds(0));
  BOOST_REQUIRE(file.append("one\n", now));
  fs::rename(path, path + ".1");
  BOOST_REQUIRE(file.reopen_if_moved(now));
  BOOST_REQUIRE(file.append("two\n", now));
  BOOST_TEST(content(path) == "two\n");
  BOOST_TEST(content(path + ".1") == "one\n");
}

BOOST_AUTO_TEST_CASE(renamed_files_are_compressed_and_the_oldest_removed) {
  for (const char* stamp : {".20250101-000000", ".20250102-000000", ".20250102-000000-0001", ".20250103-000000"})
    std::ofstream(path + stamp) << stamp;
  std::ofstream(path) << "now";
  std::ofstream(path + ".old") << "not ours";
  std::ofstream(path + ".20250101-000000.gz.tmp") << "cut short";
  BOOST_REQUIRE(tidy(path, true, 2));
  BOOST_TEST(names() == (std::vector<std::string>{"events.json", "events.json.20250102-000000-0001.gz",
                                                  "events.json.20250103-000000.gz", "events.json.old"}),
             boost::test_tools::per_element());
  BOOST_TEST(unzipped(path + ".20250103-000000.gz") == ".20250103-000000");
}

BOOST_AUTO_TEST_CASE(what_a_death_left_is_finished) {
  std::ofstream(path + ".20250101-000000") << "whole";
  BOOST_REQUIRE(tidy(path, true, 0));
  std::ofstream(path + ".20250101-000000") << "whole";  // died before it was removed
  BOOST_REQUIRE(tidy(path, true, 0));
  BOOST_TEST(names() == (std::vector<std::string>{"events.json.20250101-000000.gz"}), boost::test_tools::per_element());
  BOOST_TEST(unzipped(path + ".20250101-000000.gz") == "whole");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
