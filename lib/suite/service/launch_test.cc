#include "lib/suite/service/launch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/loop.h"

namespace pen::service {
namespace {

BOOST_AUTO_TEST_SUITE(launching)

BOOST_AUTO_TEST_CASE(a_signal_to_a_program_that_has_only_just_begun_is_not_one_to_its_parent) {
  async::Loop loop;
  int taken = 0;
  Launch sleep;
  sleep.path = "/bin/sleep";
  sleep.words = {"1000"};
  BOOST_REQUIRE(loop.on_signal(SIGTERM, [&](int) { ++taken; }).has_value());
  for (int i = 0; i < 300; ++i) {
    auto started = launch(sleep);
    BOOST_REQUIRE(started.has_value());
    ::kill(started->pid, SIGTERM);
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, started->pid, 0)));
    pollfd ended{process.get(), POLLIN, 0};
    const bool heard = ::poll(&ended, 1, 10'000) == 1;
    if (!heard) ::kill(started->pid, SIGKILL);
    int status = 0;
    BOOST_REQUIRE(::waitpid(started->pid, &status, 0) == started->pid);
    BOOST_REQUIRE(heard);
    BOOST_TEST((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  }
  ::raise(SIGTERM);  // comes after all others
  for (int i = 0; i < 1000 && taken == 0; ++i) loop.run_once(milliseconds(10));
  BOOST_TEST(taken == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
