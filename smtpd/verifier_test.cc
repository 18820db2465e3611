// smtpd's questions to verify: shared, pushed answers, bounded waits, verify's death.
#include "smtpd/verifier.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::smtpd;
using State = Verifier::State;

BOOST_AUTO_TEST_SUITE(verifier)

namespace {

using Channel = ipc::Channel<ipc::verify::FromVerify, ipc::verify::ToVerify>;
using Served = ipc::Channel<ipc::verify::ToVerify, ipc::verify::FromVerify>;

struct Fixture {
  Fixture() { listen(); }
  void listen() {
    listener.emplace(loop, *async::listen_on(async::SocketAddress::unix(path)), 10);
    loop.spawn("serve", serve(this));
  }
  /// Answers `probing` to everything but what is known.
  static async::Task<void> serve(Fixture* f) {
    for (;;) {
      auto accepted = co_await f->listener->accept();
      if (!accepted) co_return;
      auto opening = co_await ipc::greet(std::move(accepted->stream), {});
      if (!opening) continue;
      ++f->connections;
      f->channel.emplace(*std::move(opening));
      for (;;) {
        auto received = co_await f->channel->receive({.cancel = &f->hang_up});
        if (!received) break;
        const auto ask = std::get<ipc::verify::Ask>(received->message);
        f->asked.push_back(ask);
        if (f->silent) continue;
        const bool known = ask.address.starts_with("known");
        (void)f->channel->send(ipc::verify::Answer{ask.request, known ? State::bad : State::probing, "first"});
      }
      f->channel.reset();
      f->hang_up.reset();
    }
  }
  static async::Task<void> ask_one(Fixture* f, std::string address, milliseconds patience) {
    f->answers.push_back(co_await f->client->ask(std::move(address), patience, {}));
  }
  void ask(std::string address, milliseconds patience = seconds(60)) {
    loop.spawn("ask", ask_one(this, std::move(address), patience));
  }
  template <class Done>
  void until(Done done) {
    for (int i = 0; i < 60'000 && !done(); ++i) loop.run_once(milliseconds(1));
    BOOST_TEST_REQUIRE(done());
  }
  pen::testing::ScratchDir dir;
  std::string path = dir.file("verify");
  async::Loop loop;
  std::optional<async::Listener> listener;
  std::optional<Served> channel;
  async::Cancel hang_up;
  std::vector<ipc::verify::Ask> asked;
  std::vector<std::optional<Verifier::Answer>> answers;
  int connections = 0;
  bool silent = false;
  std::shared_ptr<VerifyClient> client =
      std::make_shared<VerifyClient>(loop, path, VerifyClient::Options{.answer_time = milliseconds(300)});
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(questions_about_one_address_are_one_and_the_result_ends_the_wait) {
  for (int i = 0; i < 100; ++i) ask(i % 2 == 0 ? "a@x.example" : "A@x.example");
  until([&] { return asked.size() == 1; });
  for (int i = 0; i < 20; ++i) loop.run_once(milliseconds(1));
  BOOST_TEST(asked.size() == 1U);
  BOOST_TEST(answers.empty());
  (void)channel->send(ipc::verify::Answer{asked[0].request, State::good, "ok"});
  until([&] { return answers.size() == 100; });
  for (const auto& a : answers) BOOST_TEST((a && a->state == State::good));
  BOOST_TEST(client->questions() == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_known_is_answered_at_once) {
  ask("known@x.example");
  until([&] { return answers.size() == 1; });
  BOOST_TEST((answers[0]->state == State::bad));
  BOOST_TEST(answers[0]->text == "first");
}

BOOST_AUTO_TEST_CASE(patience_ends_and_the_question_goes_on_for_the_next_one) {
  ask("a@x.example", milliseconds(20));
  until([&] { return answers.size() == 1; });
  BOOST_TEST((answers[0]->state == State::probing));
  ask("a@x.example", milliseconds(0));
  until([&] { return answers.size() == 2; });
  ask("a@x.example");
  for (int i = 0; i < 20; ++i) loop.run_once(milliseconds(1));
  BOOST_TEST(asked.size() == 1U);
  (void)channel->send(ipc::verify::Answer{asked[0].request, State::good, "ok"});
  until([&] { return answers.size() == 3; });
  BOOST_TEST((answers[2]->state == State::good));
}

BOOST_AUTO_TEST_CASE(a_verify_that_dies_is_asked_again_what_somebody_waits_for) {
  ask("left@x.example", milliseconds(1));
  ask("a@x.example");
  until([&] { return answers.size() == 1 && asked.size() == 2; });
  hang_up.raise();
  until([&] { return connections == 2 && asked.size() == 3; });
  BOOST_TEST(asked[2].address == "a@x.example");
  (void)channel->send(ipc::verify::Answer{asked[2].request, State::bad, "no"});
  until([&] { return answers.size() == 2; });
  BOOST_TEST((answers[1]->state == State::bad));
}

BOOST_AUTO_TEST_CASE(silence_is_absence_and_so_is_a_missing_service) {
  silent = true;
  ask("a@x.example");
  until([&] { return answers.size() == 1; });
  BOOST_TEST(!answers[0].has_value());
  client =
      std::make_shared<VerifyClient>(loop, dir.file("nobody"), VerifyClient::Options{.answer_time = milliseconds(300)});
  ask("a@x.example");
  until([&] { return answers.size() == 2; });
  BOOST_TEST(!answers[1].has_value());
  BOOST_TEST(client->questions() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
