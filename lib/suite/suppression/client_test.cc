// Questions and failures on their way to anvil, which dies and is away.
#include "lib/suite/suppression/client.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

BOOST_AUTO_TEST_SUITE(suppression_client)

namespace {

using namespace pen;
using namespace pen::ipc::suppression;
using pen::suppression::Client;
using Server = ipc::Channel<ToAnvil, FromAnvil>;

/// An anvil played by the test, and one client.
struct Fixture {
  Fixture() {
    path = scratch.file("anvil");
    client = std::make_shared<Client>(
        loop, path, Client::Options{.report = [this](const std::string& line) { reports.push_back(line); }});
  }
  void pass(milliseconds time) {
    clock.advance(time);
    turn();
  }
  void turn() {
    for (int i = 0; i < 50; ++i) loop.run_once();
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
      for (;;) {
        auto received = co_await f->anvil->receive();
        if (!received) break;
        f->heard.push_back(std::move(received->message));
      }
      f->anvil.reset();
    }
  }
  static async::Task<void> ask(Fixture* f) {
    f->answer = co_await f->client->ask(
        {.request = 0, .tenant = {}, .sender = "a@b.example", .recipient = "jo@there.example"}, {});
  }
  void fail_one() {
    client->tell({.tenant = {}, .address = "jo@there.example", .reason = Reason::bounce, .certain = true, .text = {}});
  }

  testing::ScratchDir scratch;
  std::string path;
  testing::ManualClock clock;
  async::Loop loop{clock};
  std::vector<std::string> reports;
  std::shared_ptr<Client> client;
  std::unique_ptr<async::Listener> listener;
  std::unique_ptr<Server> anvil;
  std::vector<ToAnvil> heard;
  std::optional<Answer> answer;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_question_gets_its_answer) {
  listen();
  loop.spawn("ask", ask(this));
  pass(milliseconds(900));
  BOOST_TEST_REQUIRE(heard.size() == 1u);
  const auto& asked = std::get<Ask>(heard[0]);
  BOOST_TEST(asked.recipient == "jo@there.example");
  (void)anvil->send(Answer{.request = asked.request, .standing = Standing::listed, .reason = Reason::complaint});
  turn();
  BOOST_TEST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->standing == Standing::listed));
  BOOST_TEST((answer->reason == Reason::complaint));
}

BOOST_AUTO_TEST_CASE(without_anvil_the_standing_is_unknown_and_the_log_says_so) {
  loop.spawn("ask", ask(this));
  for (int i = 0; i < 20 && !answer; ++i) pass(milliseconds(500));
  BOOST_TEST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->standing == Standing::unknown));
  BOOST_TEST_REQUIRE(!reports.empty());
  BOOST_TEST(reports[0].contains("the suppression list stops no mail"));
}

BOOST_AUTO_TEST_CASE(a_failure_is_told_again_until_it_is_recorded) {
  listen();
  fail_one();
  pass(milliseconds(900));
  BOOST_TEST_REQUIRE(heard.size() == 1u);
  anvil->close();  // it dies
  turn();
  for (int i = 0; i < 20 && heard.size() < 2; ++i) pass(milliseconds(500));
  BOOST_TEST_REQUIRE(heard.size() == 2u);
  (void)anvil->send(Recorded{.request = std::get<Failure>(heard[1]).request, .done = true});
  turn();
  for (int i = 0; i < 100; ++i) pass(milliseconds(1000));
  BOOST_TEST(heard.size() == 2u);
  BOOST_TEST(client->lost() == 0u);
}

BOOST_AUTO_TEST_CASE(a_failure_that_cannot_be_written_is_told_again_and_questions_go_on) {
  listen();
  fail_one();
  for (int i = 0; i < 20; ++i) {
    pass(milliseconds(500));
    if (heard.empty()) continue;
    if (const auto* failure = std::get_if<Failure>(&heard.back()))
      (void)anvil->send(Recorded{.request = failure->request, .done = false});
    turn();
  }
  BOOST_TEST(heard.size() > 5u);
  BOOST_TEST(client->lost() == 0u);
  loop.spawn("ask", ask(this));
  turn();
  const auto* asked = std::get_if<Ask>(&heard.back());
  BOOST_REQUIRE(asked != nullptr);
  (void)anvil->send(Answer{.request = asked->request, .standing = Standing::listed, .reason = Reason::complaint});
  turn();
  BOOST_TEST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->standing == Standing::listed));
  for (int i = 0; i < 90 && client->lost() == 0; ++i) {
    if (const auto* failure = std::get_if<Failure>(&heard.back()))
      (void)anvil->send(Recorded{.request = failure->request, .done = false});
    pass(milliseconds(1000));
  }
  BOOST_TEST(client->lost() == 1u);
  BOOST_TEST(reports.back().contains("anvil cannot write them"));
}

BOOST_AUTO_TEST_CASE(a_slow_disk_does_not_turn_the_list_off) {
  listen();
  fail_one();
  for (int i = 0; i < 20; ++i) pass(milliseconds(500));  // no answer to the failure
  BOOST_TEST_REQUIRE(heard.size() == 1u);
  loop.spawn("ask", ask(this));
  turn();
  BOOST_TEST_REQUIRE(heard.size() == 2u);
  (void)anvil->send(Answer{.request = std::get<Ask>(heard[1]).request, .standing = Standing::listed});
  turn();
  BOOST_TEST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->standing == Standing::listed));
}

BOOST_AUTO_TEST_CASE(failures_that_nobody_takes_are_given_up_and_counted) {
  fail_one();
  for (int i = 0; i < 90 && client->lost() == 0; ++i) pass(milliseconds(1000));
  BOOST_TEST(client->lost() == 1u);
  BOOST_TEST(reports.back().contains("do not count"));
  for (std::size_t i = 0; i < Client::kMostTold + 3; ++i) fail_one();
  BOOST_TEST(client->lost() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
