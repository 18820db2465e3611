#include "lib/base/log.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "lib/testing/scratch.h"

using namespace pen;

namespace {

struct LogFile {
  LogFile() {
    log::Options options;
    options.program = "test";
    options.target = log::Target::file;
    options.path = scratch.file("log");
    BOOST_REQUIRE(log::open(std::move(options)).has_value());
  }
  ~LogFile() { static_cast<void>(log::open({})); }
  /// The texts of the lines, joined by '|'.
  std::string texts() const {
    std::ifstream in(scratch.file("log"));
    std::string result;
    for (std::string line; std::getline(in, line);)
      result += (result.empty() ? "" : "|") + line.substr(line.find("]: ") + 3);
    return result;
  }
  testing::ScratchDir scratch;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(log_lines)

BOOST_AUTO_TEST_CASE(control_characters_from_outside_cannot_forge_a_line) {
  LogFile file;
  log::info("helo={}", "a\nNov 21 00:00:00 mx penstock/smtpd[1]: forged\x1b[2J");
  BOOST_TEST(file.texts() == "helo=a?Nov 21 00:00:00 mx penstock/smtpd[1]: forged?[2J");
}

BOOST_AUTO_TEST_CASE(gathered_lines_wait_for_flush_or_for_a_line_that_matters) {
  LogFile file;
  // In a thread of its own: gathering lasts as long as the thread.
  std::thread([&] {
    log::gather();
    log::info("one");
    log::info("two");
    BOOST_TEST(file.texts() == "");
    log::flush();
    BOOST_TEST(file.texts() == "one|two");
    log::info("three");
    log::warning("four");
    BOOST_TEST(file.texts() == "one|two|three|warning: four");
    log::info("five");
    std::thread([] { log::info("six"); }).join();
    BOOST_TEST(file.texts() == "one|two|three|warning: four|five|six");
  }).join();
}

BOOST_AUTO_TEST_CASE(what_waits_is_written_before_the_file_changes) {
  LogFile file;
  std::thread([&] {
    log::gather();
    log::info("last");
    BOOST_REQUIRE(log::reopen().has_value());
    BOOST_TEST(file.texts() == "last");
  }).join();
}

BOOST_AUTO_TEST_SUITE_END()
