#include "master/notify.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <thread>

#include "lib/testing/scratch.h"

namespace pen::master {
namespace {

/// The receiving end, as systemd has it.
struct Manager {
  pen::testing::ScratchDir dir;
  std::string path = dir.file("notify");
  Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};

  Manager() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    BOOST_REQUIRE_LT(path.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    BOOST_REQUIRE_EQUAL(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  /// The next message; "" when there is none.
  std::string heard() {
    char text[2000];
    const auto n = ::recv(socket.get(), text, sizeof text, 0);
    return n < 0 ? "" : std::string(text, static_cast<std::size_t>(n));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_manager_hears_of_start_reload_and_stop) {
  Manager manager;
  Notifier notifier(manager.path, seconds(20));
  BOOST_TEST(notifier.ready("9 services").has_value());
  BOOST_TEST(manager.heard() == "READY=1\nSTATUS=9 services\nMAINPID=" + std::to_string(::getpid()));
  BOOST_TEST(notifier.reloading(SteadyTime(microseconds(1234))).has_value());
  BOOST_TEST(manager.heard() == "RELOADING=1\nMONOTONIC_USEC=1234\nSTATUS=reloading");
  BOOST_TEST(notifier.stopping().has_value());
  BOOST_TEST(manager.heard().starts_with("STOPPING=1\n"));
  BOOST_TEST(notifier.alive().has_value());
  BOOST_TEST(manager.heard() == "WATCHDOG=1");
  BOOST_TEST((notifier.watchdog() == seconds(10)));
}

BOOST_AUTO_TEST_CASE(a_status_cannot_hold_another_assignment) {
  Manager manager;
  Notifier notifier(manager.path, seconds(0));
  BOOST_TEST(notifier.status("one\nMAINPID=1").has_value());
  BOOST_TEST(manager.heard() == "STATUS=one?MAINPID=1");
}

BOOST_AUTO_TEST_CASE(a_descriptor_is_left_under_its_name) {
  Manager manager;
  Notifier notifier(manager.path, seconds(0));
  int ends[2];
  BOOST_REQUIRE_EQUAL(::pipe(ends), 0);
  const Fd read(ends[0]), write(ends[1]);
  BOOST_TEST(notifier.keep("l1", write.get()).has_value());
  char text[200], control[CMSG_SPACE(sizeof(int))];
  iovec part{text, sizeof text};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto n = ::recvmsg(manager.socket.get(), &message, MSG_CMSG_CLOEXEC);
  BOOST_REQUIRE_GT(n, 0);
  BOOST_TEST(std::string(text, static_cast<std::size_t>(n)) == "FDSTORE=1\nFDNAME=l1");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  BOOST_REQUIRE(header != nullptr);
  int copy = -1;
  std::memcpy(&copy, CMSG_DATA(header), sizeof copy);
  const Fd kept(copy);
  BOOST_TEST(::write(kept.get(), "x", 1) == 1);
  BOOST_TEST(::read(read.get(), text, sizeof text) == 1);
  BOOST_TEST(notifier.forget("l1").has_value());
  BOOST_TEST(manager.heard() == "FDSTOREREMOVE=1\nFDNAME=l1");
}

BOOST_AUTO_TEST_CASE(a_signal_does_not_keep_a_descriptor_from_a_manager_that_is_behind) {
  Manager manager;
  Notifier notifier(manager.path, seconds(0));
  int full = 0;
  while (notifier.alive()) ++full;
  struct sigaction noted{}, before{};
  noted.sa_handler = [](int) {};
  BOOST_REQUIRE_EQUAL(::sigaction(SIGUSR1, &noted, &before), 0);
  const pthread_t self = ::pthread_self();
  std::thread late([&] {
    for (int i = 0; i < 20; ++i) {
      ::pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(milliseconds(5));  // for the other thread to wait again
    }
    while (full-- > 0) BOOST_TEST(manager.heard() == "WATCHDOG=1");
  });
  BOOST_TEST(notifier.keep("l1", 0).has_value());
  late.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  BOOST_TEST(manager.heard() == "FDSTORE=1\nFDNAME=l1");
}

BOOST_AUTO_TEST_CASE(a_manager_that_is_behind_hears_that_master_is_ready_or_stops) {
  Manager manager;
  Notifier notifier(manager.path, seconds(0));
  const auto heard_late = [&](auto say) {
    int full = 0;
    while (notifier.alive()) ++full;
    std::thread late([&] {
      std::this_thread::sleep_for(milliseconds(50));  // for the other thread to wait
      while (full-- > 0) BOOST_TEST(manager.heard() == "WATCHDOG=1");
    });
    BOOST_TEST(say().has_value());
    late.join();
    return manager.heard();
  };
  BOOST_TEST(heard_late([&] { return notifier.ready("9 services"); }).starts_with("READY=1\n"));
  BOOST_TEST(heard_late([&] { return notifier.stopping(); }).starts_with("STOPPING=1\n"));
}

BOOST_AUTO_TEST_CASE(descriptors_for_another_process_are_left_alone) {
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_PID", "1", 1);
  ::setenv("LISTEN_FDNAMES", "l1:l2", 1);
  BOOST_TEST(take_kept_descriptors().empty());
  BOOST_TEST(::getenv("LISTEN_FDS") == nullptr);
  BOOST_TEST(::getenv("LISTEN_FDNAMES") == nullptr);
}

BOOST_AUTO_TEST_CASE(the_variables_are_taken_out_of_the_environment) {
  Manager manager;
  ::setenv("NOTIFY_SOCKET", manager.path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "6000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  Notifier notifier = Notifier::from_environment();
  BOOST_TEST(::getenv("NOTIFY_SOCKET") == nullptr);
  BOOST_TEST(::getenv("WATCHDOG_USEC") == nullptr);
  BOOST_TEST((notifier.watchdog() == seconds(3)));
  BOOST_TEST(notifier.alive().has_value());
  BOOST_TEST(manager.heard() == "WATCHDOG=1");
}

BOOST_AUTO_TEST_CASE(a_keeper_is_known_and_told_to_the_next_version) {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("PENSTOCK_KEEPER", "4711", 1);
  const Notifier notifier = Notifier::from_environment();
  BOOST_TEST(::getenv("PENSTOCK_KEEPER") == nullptr);
  BOOST_TEST(notifier.keeper() == 4711);
  const std::vector<std::string> wanted = {"NOTIFY_SOCKET=/nowhere", "PENSTOCK_KEEPER=4711"};
  BOOST_TEST((notifier.environment() == wanted));
  // Without a socket there is nobody to tell.
  ::setenv("PENSTOCK_KEEPER", "4711", 1);
  BOOST_TEST(Notifier::from_environment().keeper() == 0);
  BOOST_TEST(::getenv("PENSTOCK_KEEPER") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_watchdog_of_another_process_is_not_ours) {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("WATCHDOG_USEC", "6000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  BOOST_TEST((Notifier::from_environment().watchdog() == seconds(0)));
}

BOOST_AUTO_TEST_CASE(without_a_manager_nothing_is_sent_and_a_missing_one_is_an_error) {
  ::unsetenv("NOTIFY_SOCKET");
  Notifier silent = Notifier::from_environment();
  BOOST_TEST(silent.ready("").has_value());
  BOOST_TEST((silent.watchdog() == seconds(0)));
  pen::testing::ScratchDir dir;
  BOOST_TEST(Notifier(dir.file("nobody"), seconds(0)).ready("").error().is_errno(ENOENT));
  BOOST_TEST(Notifier("relative", seconds(0)).ready("").error().is_errno(EINVAL));
}

BOOST_AUTO_TEST_CASE(an_abstract_socket_is_reached) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "penstock-notify-test-" + std::to_string(::getpid());
  std::memcpy(address.sun_path + 1, name.c_str(), name.size());
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  BOOST_REQUIRE_EQUAL(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  Notifier notifier("@" + name, seconds(0));
  BOOST_TEST(notifier.alive().has_value());
  char text[100];
  BOOST_TEST(::recv(socket.get(), text, sizeof text, 0) == 10);
}

}  // namespace pen::master
