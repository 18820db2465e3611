#include "lib/suite/ipc/link.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <map>

#include "lib/base/async/listener.h"
#include "lib/suite/ipc/clients.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::ipc {
BOOST_AUTO_TEST_SUITE(link)

namespace {

using namespace clients;
using Server = Channel<ToAnvil, FromAnvil>;

/// A User with requests under way: those that were lost are asked again.
class Asker {
 public:
  using Link = ipc::Link<FromAnvil, ToAnvil, Asker>;
  Asker(async::Loop& loop, LinkOptions options) : link_(loop, std::move(options), *this) { link_.start(); }
  void ask(std::uint64_t request) {
    asked_.push_back(request);
    if (link_.connected())
      send(request);
    else
      link_.want();
  }
  Link& link() { return link_; }
  std::map<std::uint64_t, int> answers;  // how often each came
  std::vector<std::string> lost, refused;

 private:
  friend Link;
  void send(std::uint64_t request) {
    BOOST_TEST(link_.channel().send(Count{.request = request, .client = "c"}).has_value());
  }
  void on_connected() {
    for (const auto request : asked_) send(request);
  }
  void on_message(Link::Channel::Received& received) {
    const auto request = std::get<Counted>(received.message).request;
    ++answers[request];
    std::erase(asked_, request);
  }
  void on_lost(const Error& why) {
    BOOST_TEST(!link_.connected());
    lost.push_back(why.message());
    if (!asked_.empty()) link_.want();
  }
  void on_refused(const Error& why) {
    refused.push_back(why.message());
    if (!asked_.empty()) link_.want();
  }
  std::vector<std::uint64_t> asked_;
  Link link_;
};

struct Fixture {
  testing::ManualClock clock;
  async::Loop loop{clock};
  testing::ScratchDir dir;
  std::string path = dir.file("anvil");
  std::vector<std::string> said;
  std::unique_ptr<Asker> asker;

  // the server, played by the test
  std::unique_ptr<async::Listener> listener;
  std::optional<async::Gate> serving;
  std::unique_ptr<Server> server;
  bool greets = true, answers = true;
  std::vector<std::uint64_t> heard;
  int connections = 0;

  void start(bool on_demand = false) {
    asker = std::make_unique<Asker>(loop, LinkOptions{.path = path,
                                                      .conversation = kName,
                                                      .connect_timeout = seconds(10),
                                                      .on_demand = on_demand,
                                                      .meanwhile = "nothing is counted",
                                                      .report = [this](const auto& line) { said.push_back(line); }});
    turn();
  }
  void listen() {
    listener = std::make_unique<async::Listener>(loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10);
    serving.emplace(loop);
    serving->spawn("server", serve(this));
  }
  static async::Task<void> serve(Fixture* f) {
    for (;;) {
      auto accepted = co_await f->listener->accept();
      if (!accepted) co_return;
      ++f->connections;
      if (!f->greets) {
        (void)co_await accepted->stream.read_some(1);
        (void)co_await f->loop.sleep(minutes(60));
      }
      auto opening = co_await greet(std::move(accepted->stream), {});
      if (!opening) continue;
      f->server = std::make_unique<Server>(*std::move(opening));
      for (;;) {
        auto received = co_await f->server->receive();
        if (!received) break;
        const auto request = std::get<Count>(received->message).request;
        f->heard.push_back(request);
        if (f->answers) BOOST_TEST(f->server->send(Counted{.request = request}).has_value());
      }
      f->server.reset();
    }
  }
  /// The program dies; its socket stays, as with master.
  void die() {
    server->close();
    turn();
  }
  /// Dies, and its socket goes too.
  void leave() {
    if (server) server->close();
    turn();
    serving.reset();
    listener.reset();
    ::unlink(path.c_str());
    turn();
  }
  void turn() {
    for (int i = 0; i < 50; ++i) loop.run_once();
  }
  void pass(milliseconds time) {
    clock.advance(time);
    turn();
  }
  /// How much time passes until then.
  milliseconds until(const std::function<bool()>& happened) {
    milliseconds passed{0};
    for (; !happened() && passed < seconds(10); ++passed) pass(milliseconds(1));
    return passed;
  }
  /// Within a tick of the timer wheel, of which a pause may take two.
  static bool near(int expected, milliseconds passed) { return std::abs(passed.count() - expected) <= 32; }
  ~Fixture() { asker.reset(); }
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_server_that_comes_late_is_found_and_its_absence_is_said_once) {
  start();
  asker->ask(1);
  for (int i = 0; i < 20; ++i) pass(seconds(1));
  BOOST_TEST(asker->refused.size() > 3U);
  BOOST_TEST(said.size() == 1U);
  BOOST_TEST(said.at(0).starts_with("connect to " + path + ": "));
  BOOST_TEST(said.at(0).ends_with("; until the program is there, nothing is counted"));
  BOOST_TEST(!asker->link().last_error().empty());
  listen();
  pass(seconds(6));
  BOOST_TEST(asker->link().connected());
  BOOST_TEST(asker->answers[1] == 1);
  BOOST_TEST(asker->link().last_error() == "");
  leave();
  for (int i = 0; i < 20; ++i) pass(seconds(1));
  BOOST_TEST(said.size() == 2U);  // another absence
}

BOOST_AUTO_TEST_CASE(tries_come_at_growing_distance) {
  start();
  for (const auto pause : {50, 100, 200, 400, 800, 1000, 1000})
    BOOST_TEST(near(pause, until([&, before = asker->refused.size()] { return asker->refused.size() > before; })));
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_lost_with_a_request_in_hand_is_made_again_and_nothing_is_said) {
  listen();
  start();
  answers = false;
  asker->ask(1);
  turn();
  BOOST_TEST(heard == std::vector<std::uint64_t>{1}, boost::test_tools::per_element());
  pass(seconds(2));  // it has settled
  answers = true;
  die();
  BOOST_TEST(asker->lost.size() == 1U);
  pass(milliseconds(100));
  BOOST_TEST(asker->answers[1] == 1);
  BOOST_TEST(asker->link().connections() == 2U);
  BOOST_TEST(said.empty());
}

BOOST_AUTO_TEST_CASE(a_program_that_dies_of_what_it_is_asked_is_asked_more_and_more_seldom) {
  listen();
  start();
  answers = false;
  asker->ask(1);
  turn();
  for (const auto pause : {50, 100, 200}) {
    die();
    BOOST_TEST(near(pause, until([&, before = connections] { return connections > before; })));
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_greet_is_left_and_called_again) {
  greets = false;
  listen();
  start();
  pass(seconds(9));
  BOOST_TEST(asker->refused.empty());
  pass(seconds(2));
  BOOST_TEST(asker->refused.size() == 1U);
  BOOST_TEST(said.size() == 1U);
  leave();
  greets = true;
  listen();
  pass(seconds(1));
  BOOST_TEST(asker->link().connected());
}

BOOST_AUTO_TEST_CASE(a_server_that_hangs_is_given_up_by_its_user_and_said_to_be) {
  listen();
  start();
  answers = false;
  asker->ask(1);
  pass(seconds(2));
  answers = true;
  asker->link().give_up(Error(IpcError::no_answer));
  BOOST_TEST(asker->lost.empty());  // not from within the call
  turn();
  BOOST_REQUIRE(asker->lost.size() == 1U);
  BOOST_TEST(asker->lost[0] == "no answer");
  BOOST_TEST(said.size() == 1U);
  pass(milliseconds(100));
  BOOST_TEST(asker->answers[1] == 1);
  asker->ask(2);
  turn();
  BOOST_TEST(asker->answers[2] == 1);  // the one that was given up has left nothing behind
}

BOOST_AUTO_TEST_CASE(on_demand_nobody_is_called_before_there_is_something_to_say) {
  listen();
  start(true);
  pass(seconds(10));
  BOOST_TEST(connections == 0);
  asker->ask(1);
  turn();
  BOOST_TEST(asker->answers[1] == 1);
  die();
  pass(seconds(10));
  BOOST_TEST(connections == 1);
  asker->ask(2);
  turn();
  BOOST_TEST(asker->answers[2] == 1);
  BOOST_TEST(connections == 2);
}

BOOST_AUTO_TEST_CASE(a_user_may_go_at_any_moment) {
  start();
  asker.reset();
  listen();
  start();
  BOOST_TEST(asker->link().connected());
  asker.reset();
  turn();
  BOOST_TEST(connections == 1);
  pass(seconds(10));
  BOOST_TEST(connections == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
