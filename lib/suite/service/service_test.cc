#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/suite/service/arguments.h"
#include "lib/suite/service/service.h"
#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(what_master_writes_a_program_reads_back) {
  Arguments a;
  a.service = "submission";
  a.type = "inet";
  a.sockets = 2;
  a.pages = 7;
  a.limit = 50;
  a.config_directory = "/etc/x";
  a.unprivileged = a.debug = a.debugger = a.screens = a.helped = a.badged = true;
  a.overrides = {{"smtpd_tls_security_level", "encrypt"}, {"empty", ""}, {"text", "a = b c"}};
  a.rest = {"flags=DRhu", "user=vmail", "-x"};
  const auto b = Arguments::parse(a.to_words());
  BOOST_REQUIRE(b.has_value());
  BOOST_TEST(b->screens);
  BOOST_TEST(b->badged);
  BOOST_TEST(b->debugger);
  BOOST_TEST(b->to_words() == a.to_words(), boost::test_tools::per_element());
  BOOST_TEST(b->pages == 7);
  BOOST_TEST(b->overrides[2].value == "a = b c");
  BOOST_TEST(b->rest == a.rest, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(settings_may_name_their_service) {
  Arguments a;
  a.service = "submission";
  a.overrides = {{"syslog_name", "mx/$service_name"}};
  const auto config =
      config::Config::parse({.directory = "/etc/x", .main_cf = {}, .master_cf = {}, .overrides = a.settings()}, {});
  BOOST_TEST(config.settings().syslog_name == "mx/submission");
}

BOOST_AUTO_TEST_CASE(a_bad_command_line_is_named) {
  BOOST_TEST(Arguments::parse({"-n"}).error() == "option -n needs a value");
  BOOST_TEST(Arguments::parse({"-s", "many"}).error() == "option -s: bad value \"many\"");
  BOOST_TEST(!Arguments::parse({"-o", "novalue"}).has_value());
  BOOST_TEST(!Arguments::parse({"--frobnicate"}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(context)

/// What the sessions of a program share; every session looks at it last when its client has gone.
struct Server {
  bool* gone;
  explicit Server(bool* g) : gone(g) {}
  ~Server() { *gone = true; }
  async::Task<void> serve(async::Stream stream, bool* seen_gone) {
    bool* const watched = gone;
    (void)co_await stream.read_line(80);
    *seen_gone = *watched;
  }
};

BOOST_AUTO_TEST_CASE(what_sessions_share_outlives_the_end_of_accepting) {
  testing::ScratchDir dir;
  async::Loop loop;
  const std::string path = dir.file("socket");
  std::vector<Fd> listeners;
  listeners.push_back(async::listen_on(async::SocketAddress::unix(path)).value());
  bool gone = false, seen_gone = true;
  {
    Context context(loop, config::Config::parse({}, {}), Arguments{},
                    Owners{{::getuid(), ::getgid()}, {::getuid(), ::getgid()}}, std::move(listeners));
    auto server = std::make_shared<Server>(&gone);
    context.serve(
        [server, &seen_gone](async::Listener::Accepted a) { return server->serve(std::move(a.stream), &seen_gone); });
    server.reset();
    auto client = async::testing::run(loop, async::connect(loop, async::SocketAddress::unix(path))).value();
    while (context.live_sessions() == 0) loop.run_once();
    context.draining().raise();
    for (int i = 0; i < 20; ++i) loop.run_once();  // accepting ends
    client.close();
    while (context.live_sessions() > 0) loop.run_once();
    BOOST_TEST(!seen_gone);
  }
  BOOST_TEST(gone);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
