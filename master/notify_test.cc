#include "master/notify.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

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
