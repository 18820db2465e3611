#include "lib/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lib/base/fd.h"
#include "lib/base/log_as.h"
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
  ~LogFile() { (void)log::open({}); }
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

BOOST_AUTO_TEST_CASE(a_new_log_is_for_nobody_else) {
  const LogFile file;
  struct stat st{};
  BOOST_TEST(::stat(file.scratch.file("log").c_str(), &st) == 0);
  BOOST_TEST((st.st_mode & 0777) == 0600U);
}

/// The errno with which open() failed; 0: it succeeded.
static int open_error(const std::string& path) {
  log::Options options;
  options.target = log::Target::file;
  options.path = path;
  const auto opened = log::open(std::move(options));
  (void)log::open({});
  return opened ? 0 : opened.error().sys_errno();
}

BOOST_AUTO_TEST_CASE(a_link_is_followed_only_where_nobody_else_can_make_one) {
  const testing::ScratchDir dir;
  std::filesystem::create_directory(dir.path() / "shared");
  BOOST_TEST(::chmod(dir.file("shared").c_str(), 0777) == 0);
  dir.write("other", "somebody else's");
  for (const char* name : {"link", "shared/link"})
    std::filesystem::create_symlink(dir.path() / "other", dir.path() / name);
  std::filesystem::create_hard_link(dir.path() / "other", dir.path() / "shared/second");
  BOOST_TEST(open_error(dir.file("link")) == 0);
  BOOST_TEST(open_error(dir.file("shared/link")) == ELOOP);
  BOOST_TEST(open_error(dir.file("shared/second")) == EMLINK);
  BOOST_TEST(open_error(dir.file("shared/new")) == 0);
  BOOST_TEST(open_error("/dev/stdout") == 0);
}

BOOST_AUTO_TEST_CASE(a_pipe_that_nobody_reads_holds_nobody_up) {
  const testing::ScratchDir dir;
  const std::string pipe = dir.file("pipe");
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  BOOST_TEST(open_error(pipe) == ENXIO);
  // Somebody reads it, and lines wait for that.
  const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  log::Options options;
  options.target = log::Target::file;
  options.path = pipe;
  BOOST_REQUIRE(log::open(options).has_value());
  BOOST_TEST((::fcntl(log::descriptor(), F_GETFL) & O_NONBLOCK) == 0);
  (void)log::open({});
  // Where others make names it is no log, read or not.
  BOOST_TEST(::chmod(dir.path().c_str(), 0777) == 0);
  BOOST_TEST(open_error(pipe) == EMLINK);
}

BOOST_AUTO_TEST_CASE(gathered_lines_wait_for_flush_or_for_a_line_that_matters) {
  LogFile file;
  // In a thread of its own, because a thread never stops gathering.
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

BOOST_AUTO_TEST_CASE(a_line_can_have_the_name_of_another_program) {
  const testing::ScratchDir dir;
  const std::string path = dir.file("log");
  log::Options options;
  options.program = "smtpd";
  options.tag = "postfix/mx";
  options.target = log::Target::file;
  options.path = path;
  BOOST_REQUIRE(log::open(std::move(options)).has_value());
  log::info_as("postscreen", "CONNECT from [{}]:{}", "192.0.2.1", 25);
  log::info("own");
  (void)log::open({});
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  const std::string text = all.str();
  BOOST_TEST(text.contains(" postfix/mx/postscreen["));
  BOOST_TEST(text.contains("]: CONNECT from [192.0.2.1]:25\n"));
  BOOST_TEST(text.contains(" postfix/mx/smtpd["));
}

BOOST_AUTO_TEST_CASE(the_lines_of_a_child_have_its_own_process_id) {
  LogFile file;
  log::info("parent");
  const pid_t child = ::fork();
  if (child == 0) {
    log::info("child");
    ::_exit(0);
  }
  BOOST_REQUIRE(::waitpid(child, nullptr, 0) == child);
  std::ifstream in(file.scratch.file("log"));
  std::string first, second;
  std::getline(in, first);
  std::getline(in, second);
  BOOST_TEST(first.ends_with(fmt::format("[{}]: parent", ::getpid())));
  BOOST_TEST(second.ends_with(fmt::format("[{}]: child", child)));
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
