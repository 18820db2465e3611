// The process that runs a command for a connection: what the command has, how its end is reported, and what ends it.
#include "lib/send/mailbox/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/nursery.h"

using namespace pen;
using namespace pen::mailbox;

BOOST_AUTO_TEST_SUITE(command_for_a_connection)

namespace {

using Kind = CommandEnd::Kind;
using Words = std::vector<std::string>;

struct Rig {
  ~Rig() { Nursery::instance().use({}); }

  static Policy policy_of(Words argv, seconds limit) {
    Policy out;
    out.service = ::geteuid() == 0 ? Policy::Service::connections : Policy::Service::own;
    out.name = "tested";
    out.account = {.uid = 65534, .gid = 65534, .groups = {65534}, .name = "nobody"};
    out.argv = std::move(argv);
    out.environment = {"PATH=/usr/bin:/bin", "A=b"};
    out.at_once = 10;
    out.limit = limit;
    return out;
  }
  /// Hands a connection over; ours is the client's end of it.
  void begin(Words argv, seconds limit = seconds(60)) {
    Nursery::instance().use(policy_of(std::move(argv), limit));
    auto pair = socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
    BOOST_REQUIRE(pair);
    auto handed = Nursery::instance().serve(pair->theirs.get());
    BOOST_REQUIRE(handed);
    control = *std::move(handed);
    ours = std::move(pair->ours);
  }
  /// All that the command says.
  std::string rest() const {
    std::string out;
    char buffer[4096];
    for (;;) {
      pollfd fd{ours.get(), POLLIN, 0};
      BOOST_REQUIRE(::poll(&fd, 1, 60'000) == 1);
      const auto n = ::recv(ours.get(), buffer, sizeof buffer, 0);
      if (n <= 0) return out;
      out.append(buffer, static_cast<std::size_t>(n));
    }
  }
  std::string line() const {
    std::string out;
    for (char c = 0; c != '\n';) {
      pollfd fd{ours.get(), POLLIN, 0};
      BOOST_REQUIRE(::poll(&fd, 1, 60'000) == 1);
      BOOST_REQUIRE(::recv(ours.get(), &c, 1, 0) == 1);
      if (c != '\n') out += c;
    }
    return out;
  }
  CommandEnd end() const {
    const auto told = receive_descriptor(control.get());
    BOOST_REQUIRE(told);
    const auto out = parse_command_end(told->bytes);
    BOOST_REQUIRE(out);
    return *out;
  }
  void say(std::string_view text) const {
    BOOST_REQUIRE(::send(ours.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }

  Fd ours, control;
};

Words shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_connection_is_its_input_output_and_error) {
  Rig rig;
  rig.begin(shell("read line; echo \"got $line $A\"; echo problem >&2; pwd; umask"));
  rig.say("hello\n");
  BOOST_TEST(rig.rest() == "got hello b\nproblem\n/\n0077\n");
  const CommandEnd end = rig.end();
  BOOST_TEST((end.kind == Kind::exited));
  BOOST_TEST(end.code == 0);
}

BOOST_AUTO_TEST_CASE(it_has_no_other_descriptors_and_waits_for_input) {
  Rig rig;
  rig.begin(shell("ls /proc/self/fd | wc -l; grep flags /proc/self/fdinfo/0"));
  const std::string said = rig.rest();
  BOOST_TEST(said.starts_with("4\n"));  // and the folder itself
  BOOST_TEST(!said.contains("4002"));   // O_NONBLOCK
}

BOOST_AUTO_TEST_CASE(signals_are_as_for_any_program) {
  Rig rig;
  rig.begin({"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"});
  BOOST_TEST(rig.rest() == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

BOOST_AUTO_TEST_CASE(an_end_with_a_status_or_a_signal_is_told) {
  Rig rig;
  rig.begin(shell("echo $$; exit 7"));
  const std::string pid = rig.rest();
  BOOST_TEST((rig.end() == CommandEnd{Kind::exited, 7, std::stoi(pid)}));
  rig.begin(shell("kill -9 $$"));
  const CommandEnd killed = rig.end();
  BOOST_TEST((killed.kind == Kind::signalled));
  BOOST_TEST(killed.code == 9);
}

BOOST_AUTO_TEST_CASE(a_command_that_is_not_there_is_told) {
  Rig rig;
  rig.begin({"/nonexistent/command"});
  const CommandEnd end = rig.end();
  BOOST_TEST((end.kind == Kind::not_executed));
  BOOST_TEST(end.code == ENOENT);
}

BOOST_AUTO_TEST_CASE(the_group_is_killed_at_the_time_limit) {
  Rig rig;
  rig.begin(shell("sleep 1000 & wait"), seconds(1));
  // The connection ends when all processes that have it have ended, so with the group.
  BOOST_TEST(rig.rest() == "");
  BOOST_TEST((rig.end().kind == Kind::time_limit));
}

BOOST_AUTO_TEST_CASE(the_group_is_killed_when_nobody_waits_for_it_any_more) {
  Rig rig;
  rig.begin(shell("echo here; sleep 1000 & wait"));
  BOOST_TEST(rig.line() == "here");
  rig.control.reset();
  BOOST_TEST(rig.rest() == "");
}

BOOST_AUTO_TEST_CASE(what_a_command_leaves_behind_stays) {
  Rig rig;
  rig.begin(shell("exec 3<&0; (read line <&3; echo \"still $line\") & exit 0"));
  BOOST_TEST((rig.end().kind == Kind::exited));
  rig.say("there\n");
  BOOST_TEST(rig.rest() == "still there\n");
}

BOOST_AUTO_TEST_CASE(root_s_rights_are_gone, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(::geteuid() == 0);
                     })) {
  Rig rig;
  rig.begin(shell("id -u; id -g; id -G; grep -E '^Cap(Prm|Eff)' /proc/$$/status"));
  BOOST_TEST(rig.rest() == "65534\n65534\n65534\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
}

BOOST_AUTO_TEST_SUITE_END()
