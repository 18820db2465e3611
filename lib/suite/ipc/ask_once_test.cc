#include "lib/suite/ipc/ask_once.h"

#include "lib/base/async/testing/run.h"
#include "lib/suite/ipc/queue.h"
#include "lib/testing/scratch.h"

namespace pen::ipc {
namespace {

using async::testing::run;
using async::testing::store_result;

struct Once {
  async::Loop loop;
  pen::testing::ScratchDir dir;
  std::string path = dir.file("socket");
  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  async::Listener::Slot slot;
  std::optional<Result<queue::Done>> answer;
  std::size_t seen = 0;

  void ask(Patience patience) {
    loop.spawn("ask", store_result(ask_once<queue::FromQmgr, queue::ToQmgr, queue::Done>(
                                       loop, path, queue::kName, queue::AskStatus{.request = 7}, patience,
                                       [this](queue::FromQmgr&) { ++seen; }),
                                   &answer));
  }
  async::Stream accepted() {
    auto connection = run(loop, listener.accept()).value();
    slot = std::move(connection.slot);
    return std::move(connection.stream);
  }
  const Result<queue::Done>& answered() {
    while (!answer) loop.run_once(milliseconds(10));
    return *answer;
  }
};

BOOST_FIXTURE_TEST_SUITE(ask_once_of_a_service, Once)

BOOST_AUTO_TEST_CASE(what_comes_before_the_answer_is_seen) {
  ask({});
  Channel<queue::ToQmgr, queue::FromQmgr> server(run(loop, greet(accepted(), {})).value());
  const auto question = run(loop, server.receive()).value();
  BOOST_TEST(std::get<queue::AskStatus>(question.message).request == 7U);
  BOOST_TEST(server.send(queue::Progress{}).has_value());
  BOOST_TEST(server.send(queue::Done{.request = 7, .outcome = queue::Outcome::ok, .count = 3, .text = {}}).has_value());
  BOOST_TEST(answered().value().count == 3U);
  BOOST_TEST(seen == 1U);
  BOOST_TEST(run(loop, server.receive()).error().is(async::WaitError::closed));
}

BOOST_AUTO_TEST_CASE(a_server_that_goes_leaves_no_answer) {
  ask({});
  {
    const Channel<queue::ToQmgr, queue::FromQmgr> server(run(loop, greet(accepted(), {})).value());
  }
  BOOST_TEST(answered().error().is(async::WaitError::closed));
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_greet_has_less_time) {
  ask({.until = {}, .greeted_by = loop.now() + milliseconds(1)});
  const async::Stream silent = accepted();
  BOOST_TEST(answered().error().is(async::WaitError::timed_out));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
