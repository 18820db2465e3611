#include "lib/base/file_io.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "lib/base/fd.h"
#include "lib/testing/scratch.h"

namespace pen {

BOOST_AUTO_TEST_SUITE(file_io)

BOOST_AUTO_TEST_CASE(pieces_are_written_and_read_whole_and_a_file_s_end_is_no_error) {
  const testing::ScratchDir dir;
  const Fd fd(::open(dir.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  BOOST_REQUIRE(write_all(fd.get(), "0123456789", "f").has_value());
  BOOST_REQUIRE(write_all_at(fd.get(), "abc", 4, "f").has_value());
  BOOST_TEST(read_at(fd.get(), 0, 10, "f").value() == "0123abc789");
  BOOST_TEST(read_at(fd.get(), 7, 100, "f").value() == "789");
  BOOST_TEST(read_at(fd.get(), 10, 100, "f").value().empty());
  char into[4];
  BOOST_TEST(read_at(fd.get(), 8, into, "f").value() == 2U);
  BOOST_REQUIRE(write_all(fd.get(), "x", "f").has_value());  // the position was left alone
  BOOST_TEST(read_at(fd.get(), 9, 100, "f").value() == "9x");
}

BOOST_AUTO_TEST_CASE(what_leaves_in_parts_leaves_whole) {
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Fd in(ends[0]);
  Fd out(ends[1]);
  const std::string text(3'000'000, 'x');  // more than a socket holds
  std::size_t got = 0;
  std::thread reader([&] {
    char some[5000];
    for (ssize_t n = 0; (n = ::read(in.get(), some, sizeof some)) > 0;) got += static_cast<std::size_t>(n);
  });
  BOOST_TEST(write_all(out.get(), text, "socket").has_value());
  out.reset();
  reader.join();
  BOOST_TEST(got == text.size());
}

BOOST_AUTO_TEST_CASE(errors_say_what_was_tried) {
  const testing::ScratchDir dir;
  const Fd fd(::open(dir.file("f").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto written = write_all(fd.get(), "x", "write f");
  BOOST_TEST(written.error().is_errno(EBADF));
  BOOST_TEST(written.error().message().starts_with("write f"));
  BOOST_TEST(write_all(fd.get(), "", "f").has_value());
  BOOST_TEST(read_at(-1, 0, 1, "f").error().is_errno(EBADF));
  BOOST_TEST(sync_directory(dir.path()).has_value());
  BOOST_TEST(sync_directory(dir.file("f")).error().is_errno(ENOTDIR));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen
