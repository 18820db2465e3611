// Clients of the suppression list: what they are told of failures that cannot be written, and how much of theirs waits.
#include "anvil/suppression_conversations.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

BOOST_AUTO_TEST_SUITE(suppression_conversations)

namespace {

using namespace pen;
using namespace pen::anvil;
using ipc::suppression::Answer;
using ipc::suppression::Ask;
using ipc::suppression::Failure;
using ipc::suppression::FromAnvil;
using ipc::suppression::Reason;
using ipc::suppression::Recorded;
using ipc::suppression::Standing;
using ipc::suppression::ToAnvil;
using Client = ipc::Channel<FromAnvil, ToAnvil>;

struct Fixture {
  /// program: what the client's badge says.
  explicit Fixture(std::string program = {}) {
    Suppression::Options options{.directory = scratch.file("suppressed"), .store = {}, .rules = {}, .exempt = {}};
    options.rules.bounce_time = seconds(1000);
    list = std::make_shared<Suppression>(loop, std::move(options), [](const std::string&) {});
    auto pair = async::testing::stream_pair(loop);
    loop.spawn("anvil", serve(this, std::move(pair.a), std::move(program)));
    loop.spawn("client", connect(this, std::move(pair.b)));
    until([this] { return client != nullptr; });
  }
  ~Fixture() {
    client.reset();
    until([this] { return ended; });
    async::testing::run_in_time(loop, clock, list->finish());
  }
  static async::Task<void> serve(Fixture* f, async::Stream stream, std::string program) {
    auto opening = co_await ipc::greet(std::move(stream), {.everyone = true});
    if (opening)
      (void)co_await answer_suppression(f->loop, f->list, SuppressionChannel(*std::move(opening)), std::move(program));
    f->ended = true;
  }
  static async::Task<void> connect(Fixture* f, async::Stream stream) {
    auto channel =
        co_await ipc::open_channel<FromAnvil, ToAnvil>(std::move(stream), "anvil", ipc::suppression::kName, {});
    if (channel) f->client = std::make_unique<Client>(*std::move(channel));
  }
  static async::Task<void> hear(Fixture* f) {
    auto received = co_await f->client->receive();
    if (received) f->heard = std::move(received->message);
  }
  /// The answer to this.
  FromAnvil answer(const ToAnvil& question) {
    heard.reset();
    std::visit([this](const auto& m) { BOOST_REQUIRE(client->send(m).has_value()); }, question);
    loop.spawn("answer", hear(this));
    until([this] { return heard.has_value(); });
    return *heard;
  }
  template <class Done>
  void until(Done done) {
    async::testing::pass_until(loop, clock, done);
  }
  static Failure failure() {
    return {.request = 9,
            .tenant = {},
            .address = "jo@there.example",
            .reason = Reason::bounce,
            .certain = true,
            .text = "550 no"};
  }

  testing::ScratchDir scratch;
  testing::ManualClock clock;
  async::Loop loop{clock};
  std::shared_ptr<Suppression> list;
  std::unique_ptr<Client> client;
  std::optional<FromAnvil> heard;
  bool ended = false;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_failure_that_is_on_disk_is_done) {
  const auto recorded = std::get<Recorded>(answer(failure()));
  BOOST_TEST(recorded.request == 9u);
  BOOST_TEST(recorded.done);
  const auto asked = std::get<Answer>(
      answer(Ask{.request = 10, .tenant = {}, .sender = "a@b.example", .recipient = "jo@there.example"}));
  BOOST_TEST((asked.standing == Standing::listed));
}

BOOST_AUTO_TEST_CASE(a_failure_that_cannot_be_written_has_an_answer_too) {
  std::ofstream(scratch.file("suppressed")) << "not a directory";
  const auto recorded = std::get<Recorded>(answer(failure()));
  BOOST_TEST(recorded.request == 9u);
  BOOST_TEST(!recorded.done);
}

struct FromSmtpd : Fixture {
  FromSmtpd() : Fixture("smtpd") {}
};
struct FromQmgr : Fixture {
  FromQmgr() : Fixture("qmgr") {}
};

BOOST_FIXTURE_TEST_CASE(only_the_queue_manager_tells_what_hosts_have_said, FromSmtpd) {
  BOOST_REQUIRE(client->send(failure()).has_value());
  until([this] { return ended; });
  const auto asked = std::make_shared<std::optional<Answer>>();
  loop.spawn("asked", [](Suppression* all, std::shared_ptr<std::optional<Answer>> out) -> async::Task<void> {
    *out = co_await all->ask({.request = 1, .tenant = {}, .sender = "a@b.example", .recipient = "jo@there.example"});
  }(list.get(), asked));
  until([&] { return asked->has_value(); });
  BOOST_TEST(((*asked)->standing == Standing::free));
}

BOOST_FIXTURE_TEST_CASE(smtpd_tells_of_complaints, FromSmtpd) {
  Failure complaint = failure();
  complaint.reason = Reason::complaint;
  BOOST_TEST(std::get<Recorded>(answer(complaint)).done);
}

BOOST_FIXTURE_TEST_CASE(the_queue_manager_tells_of_bounces, FromQmgr) {
  BOOST_TEST(std::get<Recorded>(answer(failure())).done);
}

BOOST_AUTO_TEST_CASE(what_a_client_sends_without_reading_is_bounded) {
  // Another process has the file, and time stands still: nothing is answered.
  const auto holder = SuppressionStore::open(scratch.file("suppressed"), {});
  BOOST_REQUIRE(holder.has_value());
  const std::size_t before = async::live_frames();
  constexpr std::size_t kMany = 3 * kMostInHand;
  for (std::size_t i = 0; i < kMany; ++i) {
    const Ask ask{.request = i, .tenant = {}, .sender = "a@b.example", .recipient = "jo@there.example"};
    BOOST_REQUIRE(client->send(ask).has_value());
  }
  for (int i = 0; i < 20'000; ++i) loop.run_once();
  const std::size_t frames = async::live_frames() - before;
  BOOST_TEST(frames >= kMostInHand);
  BOOST_TEST(frames < 6 * kMostInHand);  // a question waits in a few coroutines
}

BOOST_AUTO_TEST_SUITE_END()
