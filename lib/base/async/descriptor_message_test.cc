#include "lib/base/async/descriptor_message.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>

namespace pen::async {
namespace {

struct Pair {
  Fd ours, theirs;
  Pair() {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
  }
  /// The lowest descriptor that is not open.
  static int next_descriptor() { return Fd(::memfd_create("probe", 0)).get(); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(descriptor_message, Pair)

BOOST_AUTO_TEST_CASE(a_message_brings_its_descriptor_or_none) {
  const Fd file(::memfd_create("sent", 0));
  BOOST_REQUIRE(::pwrite(file.get(), "content", 7, 0) == 7);
  BOOST_TEST(send_descriptor_message(ours.get(), "with", file.get()).has_value());
  BOOST_TEST(send_descriptor_message(ours.get(), "without", -1).has_value());
  std::array<char, 16> room{};
  const auto with = receive_descriptor_message(theirs.get(), room);
  BOOST_TEST_REQUIRE(with.has_value());
  BOOST_TEST(std::string_view(room.data(), with->size) == "with");
  BOOST_TEST(::fcntl(with->descriptor.get(), F_GETFD) == FD_CLOEXEC);
  std::array<char, 8> content{};
  BOOST_TEST(::pread(with->descriptor.get(), content.data(), content.size(), 0) == 7);
  BOOST_TEST(std::string_view(content.data()) == "content");
  const auto without = receive_descriptor_message(theirs.get(), room);
  BOOST_TEST_REQUIRE(without.has_value());
  BOOST_TEST(std::string_view(room.data(), without->size) == "without");
  BOOST_TEST(!without->descriptor);
}

BOOST_AUTO_TEST_CASE(the_end_is_a_message_of_no_bytes_and_nobody_to_read_an_error) {
  std::array<char, 16> room{};
  ours.reset();
  const auto end = receive_descriptor_message(theirs.get(), room);
  BOOST_TEST_REQUIRE(end.has_value());
  BOOST_TEST(end->size == 0U);
  const auto sent = send_descriptor_message(theirs.get(), "x", -1);
  BOOST_TEST_REQUIRE(!sent.has_value());
  BOOST_TEST(sent.error().is_errno(EPIPE));
}

BOOST_AUTO_TEST_CASE(of_several_descriptors_none_is_taken_and_none_stays_open) {
  const int before = next_descriptor();
  int both[2] = {ours.get(), theirs.get()};
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof both)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof both);
  std::memcpy(CMSG_DATA(header), both, sizeof both);
  BOOST_REQUIRE(::sendmsg(ours.get(), &message, 0) == 1);
  std::array<char, 16> room{};
  const auto got = receive_descriptor_message(theirs.get(), room);
  BOOST_TEST_REQUIRE(got.has_value());
  BOOST_TEST(got->size == 1U);
  BOOST_TEST(!got->descriptor);
  BOOST_TEST(next_descriptor() == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::async
