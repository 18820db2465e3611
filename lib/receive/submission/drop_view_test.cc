#include "lib/receive/submission/drop_view.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/receive/submission/drop_file.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::submission {
BOOST_AUTO_TEST_SUITE(drop_view)

namespace {

using Found = DropView::Found;

/// A complete message in a directory, and views of it.
struct Fixture {
  testing::ScratchDir scratch;
  const std::string id = "4bGNsx3Ynxz1kGz8", path = scratch.file(id), content = "Subject: x\n\nhello\n";

  Fixture() {
    Submission s;
    s.sender = "ada@example.org";
    s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
    auto writer = DropWriter::create(scratch.path().string(), s, [this] { return id; }).value();
    BOOST_REQUIRE(writer->append(content));
    BOOST_REQUIRE(writer->finish());
  }
  /// The view's fault; its envelope and content can be read.
  std::string fault(Found where) const {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    BOOST_REQUIRE(fd >= 0);
    const auto view = DropView::open(fd, where).value();
    BOOST_TEST(view.submission().value().sender == "ada@example.org");
    BOOST_TEST(view.read(0, content.size()).value() == content);
    ::close(fd);
    return view.fault();
  }
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_whole_message_has_no_fault) {
  BOOST_TEST(fault(Found::in_maildrop) == "");
  BOOST_TEST(fault(Found::elsewhere) == "");
}

BOOST_AUTO_TEST_CASE(only_in_maildrop_the_mode_tells_whether_the_writer_has_finished) {
  BOOST_REQUIRE(::chmod(path.c_str(), 0644) == 0);
  BOOST_TEST(fault(Found::in_maildrop) == "its submission did not end");
  BOOST_TEST(fault(Found::elsewhere) == "");
}

BOOST_AUTO_TEST_CASE(a_changed_content_is_told_wherever_it_is) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  BOOST_REQUIRE(fd >= 0);
  struct stat st{};
  BOOST_REQUIRE(::fstat(fd, &st) == 0);
  BOOST_REQUIRE(::pwrite(fd, "\x01", 1, st.st_size - 16) == 1);  // inside the checksum
  ::close(fd);
  BOOST_TEST(fault(Found::elsewhere).find("checksum") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
