#include "lib/suite/service/conversations.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "lib/base/async/testing/run.h"
#include "lib/base/log.h"
#include "lib/suite/ipc/clients.h"
#include "lib/suite/ipc/sessions.h"
#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

using async::testing::run;
using ClientsServer = ipc::Channel<ipc::clients::ToAnvil, ipc::clients::FromAnvil>;

/// Answers every question with its number, until a client that logs in is counted: that is out of place here.
async::Task<Result<void>> answer(ClientsServer channel, async::Cancel* draining) {
  for (;;) {
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive({.cancel = draining}));
    const auto& count = std::get<ipc::clients::Count>(received.message);
    if (count.event == ipc::clients::Event::auth) co_return fail(ipc::IpcError::out_of_place, "auth");
    PEN_CO_TRY(channel.send(ipc::clients::Counted{count.request, 1, 2}));
  }
}

/// A program that offers "clients", and its log.
struct Program {
  testing::ScratchDir dir;
  async::Loop loop;
  std::string path = dir.file("anvil");
  std::optional<Context> context;

  explicit Program(Askers askers = Askers::programs, uid_t mail_owner = ::getuid(), uid_t queue_owner = ::getuid()) {
    log::Options to_file;
    to_file.target = log::Target::file;
    to_file.path = dir.file("log");
    BOOST_REQUIRE(log::open(to_file).has_value());
    std::vector<Fd> listeners;
    listeners.push_back(async::listen_on(async::SocketAddress::unix(path)).value());
    context.emplace(loop, config::Config::parse({}, {}), Arguments{},
                    Owners{.mail = {mail_owner, ::getgid()}, .queue = {queue_owner, ::getgid()}}, std::move(listeners));
    serve_conversations(
        *context,
        {{ipc::clients::kName,
          [this](ipc::Opening o) { return answer(ClientsServer(std::move(o)), &context->draining()); }, askers}});
  }
  ~Program() { BOOST_TEST(log::open({}).has_value()); }

  auto client(std::string_view conversation = ipc::clients::kName) {
    return run(loop, ipc::connect_channel<ipc::clients::FromAnvil, ipc::clients::ToAnvil>(
                         loop, path, conversation, {.deadline = loop.now() + seconds(20)}));
  }
  void settle() {
    for (int i = 0; i < 20; ++i) loop.run_once();
  }
  std::string logged() {
    settle();
    std::ifstream in(dir.file("log"));
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

BOOST_FIXTURE_TEST_SUITE(conversations, Program)

BOOST_AUTO_TEST_CASE(clients_get_the_conversation_that_they_ask_for) {
  auto one = client(), other = client();
  BOOST_REQUIRE(one.has_value());
  BOOST_REQUIRE(other.has_value());
  BOOST_TEST(other->send(ipc::clients::Count{.request = 7, .client = "x"}).has_value());
  BOOST_TEST(std::get<ipc::clients::Counted>(run(loop, other->receive()).value().message).request == 7U);
  BOOST_TEST(context->live_sessions() == 2U);
  one->close();
  other->close();
  BOOST_TEST(logged() == "");
  BOOST_TEST(context->live_sessions() == 0U);
}

BOOST_AUTO_TEST_CASE(a_conversation_that_is_not_offered_is_refused_and_logged) {
  BOOST_TEST(client(ipc::sessions::kName).error().is(async::WaitError::closed));
  BOOST_TEST(logged().contains("connection refused: \"sessions\": conversation not offered"));
}

BOOST_AUTO_TEST_CASE(the_error_that_ends_a_conversation_is_logged_and_the_next_client_is_served) {
  auto bad = client();
  BOOST_TEST(bad->send(ipc::clients::Count{.event = ipc::clients::Event::auth, .client = "x"}).has_value());
  BOOST_TEST(!run(loop, bad->receive()).has_value());
  BOOST_TEST(logged().contains("conversation clients with pid " + std::to_string(::getpid()) +
                               ": auth: a message out of place"));
  auto good = client();
  BOOST_TEST(good->send(ipc::clients::Count{.request = 8, .client = "x"}).has_value());
  BOOST_TEST(run(loop, good->receive()).has_value());
}

BOOST_AUTO_TEST_CASE(what_the_queue_manager_alone_may_ask_is_refused_to_other_programs) {
  // Root may ask for everything, so somebody else asks.
  const uid_t asker = ::getuid() == 0 ? 65534 : ::getuid();
  for (const bool queue_owner : {true, false}) {
    Program program(Askers::queue_manager, asker, queue_owner ? asker : asker - 1);
    BOOST_REQUIRE(::chmod(program.dir.path().c_str(), 0755) == 0 && ::chmod(program.path.c_str(), 0666) == 0);
    const bool becomes = ::geteuid() != asker;
    BOOST_REQUIRE(!becomes || ::seteuid(asker) == 0);
    auto client = program.client();
    BOOST_REQUIRE(!becomes || ::seteuid(0) == 0);
    BOOST_TEST(client.has_value() == queue_owner);
    BOOST_TEST(program.logged().contains("conversation clients is the queue manager's: pid") != queue_owner);
  }
}

BOOST_AUTO_TEST_CASE(a_drain_ends_conversations_without_a_word) {
  auto c = client();
  BOOST_REQUIRE(c.has_value());
  context->draining().raise();
  BOOST_TEST(!run(loop, c->receive()).has_value());
  BOOST_TEST(logged() == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
