// spawn: the words of master.cf, and connections that commands serve side by side, or that nobody serves.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/meaning/spawn/options.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/nursery.h"
#include "spawn/serve.h"

using namespace pen;
using namespace pen::spawner;

namespace {

using End = mailbox::CommandEnd;

struct Connection {
  std::optional<Result<End>> end;
  Fd ours;

  Connection(async::Loop& loop, seconds limit) {
    auto pair = mailbox::socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
    BOOST_REQUIRE(pair);
    ours = std::move(pair->ours);
    loop.spawn("command", wait(this, &loop, async::Stream(loop, std::move(pair->theirs)), limit));
  }
  static async::Task<void> wait(Connection* self, async::Loop* loop, async::Stream stream, seconds limit) {
    self->end = co_await serve_connection(*loop, std::move(stream), limit);
  }
};

/// Runs what the connection says as a shell's script.
mailbox::Policy policy() {
  mailbox::Policy out;
  out.service = ::geteuid() == 0 ? mailbox::Policy::Service::connections : mailbox::Policy::Service::own;
  out.account = {.uid = 65534, .gid = 65534, .groups = {65534}, .name = "nobody"};
  out.argv = {"/bin/sh"};
  out.environment = {"PATH=/usr/bin:/bin"};
  out.at_once = 10;
  out.limit = seconds(60);
  return out;
}

struct Rig {
  explicit Rig(const mailbox::Policy& what = policy()) { mailbox::Nursery::instance().use(what); }
  void await(const Connection& connection) {
    while (!connection.end) loop.run_once(milliseconds(1000));
  }
  End run(const std::string& script) {
    Connection connection(loop, seconds(60));
    say(connection, script);
    await(connection);
    BOOST_REQUIRE(*connection.end);
    return **connection.end;
  }
  static void say(const Connection& to, const std::string& script) {
    BOOST_REQUIRE(::send(to.ours.get(), script.data(), script.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(script.size()));
    ::shutdown(to.ours.get(), SHUT_WR);
  }
  async::Loop loop;
};

using Kind = End::Kind;

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

BOOST_AUTO_TEST_CASE(the_end_of_a_command_is_told) {
  Rig rig;
  BOOST_TEST((rig.run("exit 0\n").kind == Kind::exited));
  const End failed = rig.run("exit 7\n");
  BOOST_TEST((failed.kind == Kind::exited));
  BOOST_TEST(failed.code == 7);
}

BOOST_AUTO_TEST_CASE(a_hung_command_holds_up_no_other) {
  Rig rig;
  Connection hung(rig.loop, seconds(60));  // waits for its script
  BOOST_TEST(rig.run("exit 3\n").code == 3);
  BOOST_TEST(!hung.end.has_value());
  Rig::say(hung, "exit 4\n");
  rig.await(hung);
  BOOST_REQUIRE(*hung.end);
  BOOST_TEST((*hung.end)->code == 4);
}

BOOST_AUTO_TEST_CASE(the_client_sees_the_end_of_its_command_while_others_run) {
  Rig rig;
  Connection hung(rig.loop, seconds(60)), brief(rig.loop, seconds(60));
  Rig::say(brief, "echo over\n");
  rig.await(brief);
  char buffer[100];
  BOOST_TEST(::recv(brief.ours.get(), buffer, sizeof buffer, 0) == 5);
  BOOST_TEST(::recv(brief.ours.get(), buffer, sizeof buffer, 0) == 0);
  Rig::say(hung, "exit\n");
  rig.await(hung);
}

BOOST_AUTO_TEST_CASE(what_the_helper_refuses_is_an_error_and_no_command) {
  mailbox::Policy none = policy();
  none.at_once = 0;
  Rig rig(none);
  Connection connection(rig.loop, seconds(60));
  rig.await(connection);
  BOOST_REQUIRE(!*connection.end);
  BOOST_TEST(connection.end->error().message().contains("no command for connections"));
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_before_it_tells_is_an_error) {
  Rig rig;
  Connection connection(rig.loop, seconds(60));
  // The shell's parent is the process that waits for it; as it ends, the shell is killed.
  Rig::say(connection, "kill -9 $PPID\nwhile :; do :; done\n");
  rig.await(connection);
  BOOST_REQUIRE(!*connection.end);
  BOOST_TEST(connection.end->error().message().contains("the process that runs it"));
}

BOOST_AUTO_TEST_SUITE_END()
