// spawn: the words of master.cf, and commands that serve a connection, end well or badly, or hang.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "lib/testing/scratch.h"
#include "spawn/child.h"
#include "spawn/options.h"

using namespace pen;
using namespace pen::spawner;

namespace {

struct Rig {
  async::Loop loop;
  std::optional<Ending> ending;
  std::string got;

  /// Runs a shell command, sends text to it, and waits for its end and for the end of what it says.
  Ending run(const std::string& script, std::string_view text = {}, seconds limit = seconds(60)) {
    return run(Command{.argv = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin", "A=b"}, .become = {}},
               text, limit);
  }
  Ending run(Command command, std::string_view text = {}, seconds limit = seconds(60)) {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    const Fd ours(fds[1]);
    BOOST_REQUIRE(::send(ours.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    ::shutdown(ours.get(), SHUT_WR);
    ending.reset();
    got.clear();
    loop.spawn("command", wait(this, std::move(command), Fd(fds[0]), limit));
    while (!ending) loop.run_once(milliseconds(1000));
    char buffer[4096];
    for (ssize_t n; (n = ::recv(ours.get(), buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    return *ending;
  }
  static async::Task<void> wait(Rig* self, Command command, Fd socket, seconds limit) {
    self->ending = co_await run_command(self->loop, command, async::Stream(self->loop, std::move(socket)), limit);
  }
};

using Kind = Ending::Kind;

std::string error_of(const std::vector<std::string>& words) {
  const auto parsed = parse_options(words);
  return parsed ? "" : parsed.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spawn)

BOOST_AUTO_TEST_CASE(a_service_has_a_user_and_a_command) {
  const auto options = parse_options({"user=policyd:mail", "argv=/usr/bin/policyd", "user=x", "-v"});
  BOOST_TEST_REQUIRE(options.has_value());
  BOOST_TEST(options->user == "policyd");
  BOOST_TEST(options->group == "mail");
  BOOST_TEST(options->argv == (std::vector<std::string>{"/usr/bin/policyd", "user=x", "-v"}),
             boost::test_tools::per_element());
  BOOST_TEST(error_of({"argv=/bin/true"}).contains("user= is missing"));
  BOOST_TEST(error_of({"user=a"}).contains("argv= is missing"));
  BOOST_TEST(error_of({"user=", "argv=x"}).contains("user="));
  BOOST_TEST(error_of({"user=a:", "argv=x"}).contains("user="));
  BOOST_TEST(error_of({"flags=q", "user=a", "argv=x"}).contains("flags=q"));
  BOOST_TEST(error_of({"argv"}).contains("\"argv\""));
}

BOOST_AUTO_TEST_CASE(the_connection_is_its_input_output_and_error) {
  Rig rig;
  const auto how = rig.run("read line; echo \"got $line $A\"; echo problem >&2; pwd", "hello\n");
  BOOST_TEST((how.kind == Kind::exited));
  BOOST_TEST(how.code == 0);
  BOOST_TEST(rig.got == "got hello b\nproblem\n/\n");
}

BOOST_AUTO_TEST_CASE(it_has_no_other_descriptors_and_waits_for_input) {
  Rig rig;
  rig.run("ls /proc/self/fd | wc -l; grep flags /proc/self/fdinfo/0");
  BOOST_TEST(rig.got.starts_with("4\n"));  // and the folder itself
  BOOST_TEST(!rig.got.contains("4002"));   // O_NONBLOCK
}

BOOST_AUTO_TEST_CASE(an_end_with_a_status_or_a_signal_is_told) {
  Rig rig;
  auto how = rig.run("exit 7");
  BOOST_TEST((how.kind == Kind::exited));
  BOOST_TEST(how.code == 7);
  how = rig.run("kill -9 $$");
  BOOST_TEST((how.kind == Kind::signalled));
  BOOST_TEST(how.code == 9);
}

BOOST_AUTO_TEST_CASE(a_command_that_is_not_there_is_named) {
  Rig rig;
  const auto how = rig.run(Command{.argv = {"/nonexistent/command"}, .environment = {}, .become = {}});
  BOOST_TEST((how.kind == Kind::not_started));
  BOOST_TEST(how.why.contains("/nonexistent/command"));
  BOOST_TEST(how.why.contains("No such file"));
}

BOOST_AUTO_TEST_CASE(the_group_is_killed_at_the_time_limit) {
  Rig rig;
  pen::testing::ScratchDir scratch;
  const std::string file = scratch.file("pid");
  const auto how = rig.run("sleep 1000 & echo $! > " + file + "; wait", {}, seconds(1));
  BOOST_TEST((how.kind == Kind::time_limit));
  std::ifstream in(file);
  pid_t pid = 0;
  BOOST_REQUIRE(in >> pid);
  // Its parent is gone: who adopts it reaps it, soon.
  const auto gone = [pid] {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.contains(") Z ");
  };
  for (int i = 0; i < 1000 && !gone(); ++i) ::usleep(10'000);
  BOOST_TEST(gone());
}

BOOST_AUTO_TEST_CASE(a_hung_command_holds_up_no_other) {
  Rig rig;
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const Fd ours(fds[1]);
  Rig hung;
  rig.loop.spawn("hung",
                 Rig::wait(&hung, Command{.argv = {"sleep", "1000"}, .environment = {"PATH=/bin"}, .become = {}},
                           Fd(fds[0]), seconds(1)));
  BOOST_TEST(rig.run("echo here").code == 0);
  BOOST_TEST(rig.got == "here\n");
  BOOST_TEST(!hung.ending.has_value());
}

BOOST_AUTO_TEST_CASE(root_s_rights_are_gone, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(::geteuid() == 0);
                     })) {
  Rig rig;
  rig.run(Command{.argv = {"/bin/sh", "-c", "id -u; id -G"},
                  .environment = {"PATH=/usr/bin:/bin"},
                  .become = mailbox::Identity{65534, 65534, {65534}}});
  BOOST_TEST(rig.got == "65534\n65534\n");
  const auto how = rig.run(Command{.argv = {"/bin/true"}, .environment = {}, .become = mailbox::Identity{0, 0, {0}}});
  BOOST_TEST((how.kind == Kind::not_started));
}

BOOST_AUTO_TEST_SUITE_END()
