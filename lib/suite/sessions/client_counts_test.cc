#include "lib/suite/sessions/client_counts.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::sessions {
namespace {

using namespace ipc::clients;
using Server = ipc::Channel<ToAnvil, FromAnvil>;
using Place = ClientCounts::Place;
using Answer = std::optional<ClientCounts::Counted>;

/// An anvil played by the test, and one smtpd.
struct Fixture {
  Fixture() {
    path = scratch.file("anvil");
    counts = std::make_shared<AnvilCounts>(loop, path, AnvilCounts::Options{});
  }
  void connect() {
    counts->start();
    turn();
  }
  void listen() {
    auto fd = async::listen_on(async::SocketAddress::unix(path));
    BOOST_REQUIRE(fd.has_value());
    listener = std::make_unique<async::Listener>(loop, *std::move(fd), 10);
    loop.spawn("anvil", serve(this));
  }
  static async::Task<void> serve(Fixture* f) {
    while (f->listener) {
      auto accepted = co_await f->listener->accept();
      if (!accepted) co_return;
      auto opening = co_await ipc::greet(std::move(accepted->stream), {.everyone = true});
      if (!opening) continue;
      f->anvil = std::make_unique<Server>(*std::move(opening));
      f->heard.clear();
      for (;;) {
        auto received = co_await f->anvil->receive();
        if (!received) break;
        f->heard.push_back(std::move(received->message));
      }
      f->anvil.reset();
    }
  }
  void pass(milliseconds time) {
    clock.advance(time);
    turn();
  }
  void turn() {
    for (int i = 0; i < 50; ++i) loop.run_once();
  }
  static async::Task<void> ask_into(Fixture* f, ipc::clients::Event event, async::Until until,
                                    std::shared_ptr<Answer> out) {
    *out = co_await f->counts->count(event, "smtp:a", until);
  }
  std::shared_ptr<Answer> ask(ipc::clients::Event event = ipc::clients::Event::message, async::Until until = {}) {
    auto out = std::make_shared<Answer>();
    loop.spawn("ask", ask_into(this, event, until, out));
    turn();
    return out;
  }
  std::uint64_t asked(std::size_t i) { return std::get<Count>(heard.at(i)).request; }

  testing::ScratchDir scratch;
  std::string path;
  testing::ManualClock clock;
  async::Loop loop{clock};
  std::shared_ptr<AnvilCounts> counts;
  std::unique_ptr<async::Listener> listener;
  std::unique_ptr<Server> anvil;
  std::vector<ToAnvil> heard;
};

BOOST_AUTO_TEST_CASE(clients_are_counted_by_their_network) {
  BOOST_TEST(client_block("192.0.2.7", 32, 84) == "192.0.2.7");
  BOOST_TEST(client_block("192.0.2.7", 24, 84) == "192.0.2.0");
  BOOST_TEST(client_block("192.0.2.7", 30, 84) == "192.0.2.4");
  BOOST_TEST(client_block("192.0.2.7", 0, 84) == "0.0.0.0");
  BOOST_TEST(client_block("2001:db8::1", 32, 64) == client_block("2001:db8::ffff:2", 32, 64));
  BOOST_TEST(client_block("2001:db8::1", 32, 128) != client_block("2001:db8::2", 32, 128));
  BOOST_TEST(client_block("2001:db8:0:0:0:0fff::1", 32, 84) == client_block("2001:db8:0:0:0:0000::1", 32, 84));
  BOOST_TEST(client_block("2001:db8:0:0:0:1000::1", 32, 84) != client_block("2001:db8:0:0:0:0000::1", 32, 84));
  BOOST_TEST(client_block("unknown", 32, 84) == "unknown");
}

BOOST_FIXTURE_TEST_SUITE(counts_of_clients, Fixture)

BOOST_AUTO_TEST_CASE(a_question_is_answered_and_sessions_are_told_of) {
  listen();
  connect();
  {
    const Place place(counts, "smtp:a");
    const auto answer = ask();
    BOOST_REQUIRE_EQUAL(heard.size(), 2U);
    BOOST_TEST(std::get<Enter>(heard[0]).client == "smtp:a");
    BOOST_TEST(!answer->has_value());
    BOOST_REQUIRE(anvil->send(Counted{asked(1), 7, 3}).has_value());
    turn();
    BOOST_REQUIRE(answer->has_value());
    BOOST_TEST((*answer)->rate == 7U);
    BOOST_TEST((*answer)->live == 3U);
  }
  turn();
  BOOST_TEST(std::get<Leave>(heard.back()).client == "smtp:a");
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_an_anvil_that_cannot_be_reached) {
  const Place one(counts, "smtp:a"), two(counts, "smtp:a");
  const auto early = ask();
  BOOST_TEST(!early->has_value());
  connect();
  BOOST_REQUIRE(early->has_value());
  BOOST_TEST((*early)->rate == 0U);
  BOOST_TEST((*early)->live == 2U);
  const auto later = ask();
  BOOST_TEST(later->has_value());
}

BOOST_AUTO_TEST_CASE(an_anvil_that_was_started_again_is_told_and_asked_again) {
  listen();
  connect();
  const Place one(counts, "smtp:a"), two(counts, "smtp:a");
  const auto answer = ask();
  BOOST_REQUIRE_EQUAL(heard.size(), 3U);
  anvil->close();  // kill -9; master keeps its socket
  turn();
  BOOST_TEST(!answer->has_value());
  pass(milliseconds(100));
  BOOST_REQUIRE_EQUAL(heard.size(), 2U);
  BOOST_TEST(std::get<Enter>(heard[0]).sessions == 2U);
  BOOST_REQUIRE(anvil->send(Counted{asked(1), 1, 2}).has_value());
  turn();
  BOOST_REQUIRE(answer->has_value());
  BOOST_TEST((*answer)->rate == 1U);
}

BOOST_AUTO_TEST_CASE(an_anvil_that_does_not_answer_counts_as_away_until_it_does) {
  listen();
  connect();
  const auto answer = ask();
  pass(milliseconds(4900));
  BOOST_TEST(!answer->has_value());
  pass(milliseconds(200));
  BOOST_REQUIRE(answer->has_value());
  BOOST_TEST((*answer)->rate == 0U);
  BOOST_TEST(!counts->connected());
  BOOST_TEST(ask()->has_value());
  pass(milliseconds(100));  // it is connected to again
  BOOST_TEST(counts->connected());
  BOOST_TEST(!ask()->has_value());
}

BOOST_AUTO_TEST_CASE(who_gives_up_waiting_is_not_counted) {
  listen();
  connect();
  {
    const auto answer = ask(ipc::clients::Event::auth, {.deadline = loop.now() + milliseconds(10)});
    pass(milliseconds(50));
    BOOST_REQUIRE(answer->has_value());
    BOOST_TEST((*answer)->rate == 0U);
  }
  BOOST_REQUIRE(anvil->send(Counted{asked(0), 1, 1}).has_value());  // nobody's
  turn();
  BOOST_TEST(counts->connected());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sessions
