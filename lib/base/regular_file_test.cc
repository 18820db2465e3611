#include "lib/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/testing/scratch.h"

namespace pen {

BOOST_AUTO_TEST_SUITE(regular_files)

BOOST_AUTO_TEST_CASE(a_file_is_opened_also_by_a_link) {
  const testing::ScratchDir dir;
  dir.write("file", "content");
  std::filesystem::create_symlink("file", dir.path() / "link");
  for (const char* name : {"file", "link"}) {
    const auto fd = open_regular_file(dir.file(name));
    BOOST_REQUIRE(fd.has_value());
    char text[8] = {};
    BOOST_TEST(::read(fd->get(), text, sizeof text) == 7);
    BOOST_TEST((::fcntl(fd->get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
  }
  BOOST_TEST(open_regular_file(dir.file("missing")).error().sys_errno() == ENOENT);
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_not_even_opened) {
  const testing::ScratchDir dir;
  BOOST_REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", dir.path() / "link");
  for (const char* name : {"pipe", "link"}) {
    BOOST_TEST(open_regular_file(dir.file(name)).error().sys_errno() == EACCES);
    // Nobody has had the other end.
    BOOST_TEST(::open(dir.file("pipe").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC) < 0);
  }
  BOOST_TEST(open_regular_file(dir.path().string()).error().sys_errno() == EISDIR);
  for (const char* device : {"/dev/zero", "/dev/null"})
    BOOST_TEST(open_regular_file(device).error().sys_errno() == EACCES);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen
