#include "penevents/backlog.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"

namespace pen::penevents {
namespace {

constexpr std::uint64_t kSegment = 64 * 1024;

struct Kept {
  testing::ScratchDir dir;
  std::string path = dir.file("events");
  Backlog open() { return Backlog::open(path, 0).value(); }
  std::size_t segments() const {
    std::size_t n = 0;
    for (const auto& e : std::filesystem::directory_iterator(path))
      n += e.path().filename().string().starts_with("events-") ? 1 : 0;
    return n;
  }
};

BOOST_FIXTURE_TEST_SUITE(backlog, Kept)

BOOST_AUTO_TEST_CASE(lines_come_back_whole_after_a_restart) {
  {
    auto log = open();
    BOOST_REQUIRE(log.append("one\ntwo\n"));
    BOOST_REQUIRE(log.append("three\n"));
  }
  auto log = open();
  BOOST_TEST(log.end() == 14U);
  BOOST_TEST(log.read(0, 2, 100).value() == "one\ntwo\n");
  BOOST_TEST(log.read(8, 2, 100).value() == "three\n");
  BOOST_TEST(log.read(0, 9, 9).value() == "one\ntwo\n");  // no half line
  BOOST_TEST(log.read(14, 2, 100).value() == "");
  BOOST_TEST(log.count_lines(4, 14).value() == 2U);
}

BOOST_AUTO_TEST_CASE(a_torn_last_line_is_cut_off) {
  BOOST_REQUIRE(open().append("one\ntwo\n"));
  std::ofstream(path + "/events-00000000000000000000", std::ios::app) << "torn";
  auto log = open();
  BOOST_TEST(log.end() == 8U);
  BOOST_REQUIRE(log.append("three\n"));
  BOOST_TEST(log.read(0, 9, 100).value() == "one\ntwo\nthree\n");
}

BOOST_AUTO_TEST_CASE(what_comes_after_an_unreadable_last_segment_was_ended_can_be_read) {
  const std::string whole = "one\n", unreadable = "two\n";
  {
    auto log = open();
    BOOST_REQUIRE(log.append(whole + unreadable));
    std::ofstream(path + "/events-00000000000000000000") << std::string(8, 'x');
    BOOST_TEST(log.read(0, 9, 100).value() == "");
    const auto end = log.end();
    log.end_segment();
    BOOST_TEST(log.next_segment(0) == end);
    BOOST_REQUIRE(log.append("three\n"));
    BOOST_TEST(log.read(end, 9, 100).value() == "three\n");
    BOOST_TEST(segments() == 2U);
    log.end_segment();
    log.end_segment();  // an empty one begins with what is appended
    BOOST_REQUIRE(log.append("four\n"));
    BOOST_TEST(log.read(end + 6, 9, 100).value() == "four\n");
  }
  auto log = open();
  BOOST_TEST(log.read(8, 9, 100).value() == "three\n");
  BOOST_TEST(log.end() == 19U);
}

BOOST_AUTO_TEST_CASE(segments_that_everybody_has_are_removed_but_for_the_last) {
  auto log = open();
  const std::string line = std::string(kSegment, 'x') + "\n";
  for (int i = 0; i < 3; ++i) BOOST_REQUIRE(log.append(line));
  BOOST_TEST(segments() == 3U);
  BOOST_TEST(log.next_segment(10) == line.size());
  BOOST_REQUIRE(log.drop_before(line.size() + 5));
  BOOST_TEST(segments() == 2U);
  BOOST_TEST(log.begin() == line.size());
  BOOST_REQUIRE(log.drop_before(log.end()));
  BOOST_TEST(segments() == 1U);
  const auto end = log.end();
  BOOST_TEST(open().end() == end);  // positions are never used again
}

BOOST_AUTO_TEST_CASE(positions_are_kept_for_each_server) {
  auto log = open();
  BOOST_TEST(!load_position(path, "https://a/"));
  BOOST_REQUIRE(save_position(path, "https://a/", 5));
  BOOST_REQUIRE(save_position(path, "https://b/", 7));
  BOOST_REQUIRE(save_position(path, "https://a/", 123456));
  BOOST_TEST(load_position(path, "https://a/").value() == 123456U);
  forget_others(path, {"https://a/"});
  BOOST_TEST(load_position(path, "https://a/").value() == 123456U);
  BOOST_TEST(!load_position(path, "https://b/"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
