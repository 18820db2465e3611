#include "penevents/rotating_file.h"

#include <sys/resource.h>
#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
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

BOOST_AUTO_TEST_CASE(what_a_full_disk_took_in_part_is_taken_back) {
  auto file = open(0, seconds(0));
  BOOST_REQUIRE(file.append("{\"one\":1}\n", now));
  // The limit of a file's size: a write that fits in part, then none, as on a full disk.
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{}, small{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  small = {.rlim_cur = 16, .rlim_max = usual.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const bool written = file.append("{\"two\":2}\n", now).has_value();
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  ::signal(SIGXFSZ, before);
  BOOST_TEST(!written);
  BOOST_REQUIRE(file.append("{\"three\":3}\n", now));
  BOOST_TEST(content(path) == "{\"one\":1}\n{\"three\":3}\n");
}

BOOST_AUTO_TEST_CASE(a_torn_end_that_a_power_cut_left_is_cut_off) {
  std::ofstream(path) << "header\n{\"one\":1}\n{\"tw";
  BOOST_REQUIRE(open(0, seconds(0), "header\n").append("{\"three\":3}\n", now));
  BOOST_TEST(content(path) == "header\n{\"one\":1}\n{\"three\":3}\n");
  std::ofstream(path) << "hea";
  BOOST_REQUIRE(open(0, seconds(0), "header\n").append("{\"three\":3}\n", now));
  BOOST_TEST(content(path) == "header\n{\"three\":3}\n");
  // What is no file of lines is not cut.
  std::ofstream(path) << std::string(2 << 20, 'x');
  BOOST_REQUIRE(open(0, seconds(0)).append("one\n", now));
  BOOST_TEST(content(path) == std::string(2 << 20, 'x') + "\none\n");
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_renamed_goes_on_and_that_is_said_once) {
  path = dir.file("deep/events.json");
  fs::create_directory(dir.file("deep"));
  auto file = open(10, seconds(0));
  BOOST_REQUIRE(file.append("123456\n", now));
  fs::rename(dir.file("deep"), dir.file("away"));  // its directory is gone: nothing can be renamed there
  BOOST_REQUIRE(file.append("abcdef\n", now));
  BOOST_TEST(file.take_trouble().has_value());
  BOOST_TEST(!file.take_renamed());
  BOOST_REQUIRE(file.append("ABCDEF\n", now + seconds(60)));
  BOOST_TEST(!file.take_trouble().has_value());
  BOOST_TEST(content(dir.file("away/events.json")) == "123456\nabcdef\nABCDEF\n");
  fs::rename(dir.file("away"), dir.file("deep"));
  BOOST_REQUIRE(file.append("x\n", now + seconds(120)));
  BOOST_TEST(file.take_renamed());
  BOOST_TEST(content(path) == "x\n");
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
