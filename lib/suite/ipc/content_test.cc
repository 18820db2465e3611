#include "lib/suite/ipc/content.h"

#include <fcntl.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::ipc;

namespace {
Fd file_with(testing::ScratchDir& scratch, const std::string& text) {
  return Fd(::open(scratch.write("spool", text).c_str(), O_RDONLY | O_CLOEXEC));
}
std::string read(const Content& content, std::uint64_t at, std::size_t count) {
  std::string text(count, '?');
  const auto done = content.read(at, text);
  return done ? text : done.error().code() == std::errc::no_message_available ? "none" : "other";
}
}  // namespace

BOOST_AUTO_TEST_SUITE(content)

BOOST_AUTO_TEST_CASE(memory_and_files_read_alike_within_their_bounds) {
  testing::ScratchDir scratch;
  for (const auto& content :
       {Content::in_memory("0123456789"), Content::in_file(file_with(scratch, "HEAD0123456789TAIL"), 4, 10)}) {
    BOOST_TEST(content.size() == 10U);
    BOOST_TEST(read(content, 0, 10) == "0123456789");
    BOOST_TEST(read(content, 7, 3) == "789");
    BOOST_TEST(read(content, 10, 0) == "");
    BOOST_TEST(read(content, 7, 4) == "none");
    BOOST_TEST(read(content, 11, 0) == "none");
    BOOST_TEST(read(content, UINT64_MAX, 2) == "none");
    BOOST_TEST(content.memory() == (content.in_memory() ? "0123456789" : ""));
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_too_short_is_an_error_not_a_short_read) {
  testing::ScratchDir scratch;
  const auto content = Content::in_file(file_with(scratch, "short"), 0, 5000);
  BOOST_TEST(read(content, 0, 5) == "short");
  BOOST_TEST(read(content, 0, 6) == "none");
}

BOOST_AUTO_TEST_CASE(a_frame_has_the_bytes_that_it_announces_or_one_file) {
  testing::ScratchDir scratch;
  const auto taken = [&](std::string_view text, std::size_t files, std::uint64_t size) {
    std::vector<Fd> fds;
    while (fds.size() < files) fds.push_back(file_with(scratch, "ab"));
    const auto content = take_content(text, fds, 0, size);
    return content ? read(*content, 0, static_cast<std::size_t>(size)) : "refused";
  };
  BOOST_TEST(taken("ab", 0, 2) == "ab");
  BOOST_TEST(taken("", 0, 0) == "");
  BOOST_TEST(taken("", 1, 2) == "ab");
  BOOST_TEST(taken("ab", 0, 3) == "refused");
  BOOST_TEST(taken("ab", 0, 1) == "refused");
  BOOST_TEST(taken("", 0, 2) == "refused");
  BOOST_TEST(taken("ab", 1, 2) == "refused");
  BOOST_TEST(taken("", 2, 2) == "refused");
}

BOOST_AUTO_TEST_SUITE_END()
