#include "qmgr/watches.h"

#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <optional>

#include "lib/testing/manual_clock.h"

namespace pen::qmgr {
namespace {

using namespace ipc::queue;
using Tool = ipc::Channel<FromQmgr, ToQmgr>;

struct Watching {
  std::optional<Tool> channel;
  std::vector<Happened> got;
  std::string refused;
  bool over = false;
};

async::Task<void> answer(Watches* watches, async::Stream stream) {
  auto opening = co_await ipc::greet(std::move(stream), {});
  BOOST_REQUIRE(opening);
  Watches::Channel channel(*std::move(opening));
  auto first = co_await channel.receive();
  BOOST_REQUIRE(first);
  const Watch watch = std::get<Watch>(first->message);
  (void)co_await Watches::serve(watches, &channel, watch.request, watch.queue_id);
  (void)co_await channel.flush();
}

async::Task<void> read_all(Watching* w) {
  for (;;) {
    auto received = co_await w->channel->receive();
    if (!received) break;
    if (auto* what = std::get_if<Happened>(&received->message)) w->got.push_back(*what);
    if (auto* done = std::get_if<Done>(&received->message)) w->refused = done->text;
  }
  w->over = true;
}

async::Task<void> watch(Watching* w, async::Stream stream, std::string id, bool reads) {
  auto channel = co_await ipc::open_channel<FromQmgr, ToQmgr>(std::move(stream), "test", kName);
  BOOST_REQUIRE(channel);
  w->channel.emplace(*std::move(channel));
  (void)w->channel->send(Watch{7, std::move(id)});
  (void)co_await w->channel->flush();
  if (reads) co_await read_all(w);
}

struct Rig {
  Watching& begin(std::string id, bool reads = true) {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    all.push_back(std::make_unique<Watching>());
    tasks.spawn("qmgr", answer(&watches, async::Stream(loop, Fd(fds[0]))));
    tasks.spawn("tool", watch(all.back().get(), async::Stream(loop, Fd(fds[1])), std::move(id), reads));
    settle();
    return *all.back();
  }
  void settle() {
    for (int i = 0; i < 50; ++i) loop.run_once();
  }
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  Watches watches{loop};
  std::vector<std::unique_ptr<Watching>> all;
  async::Gate tasks{loop};
};

BOOST_AUTO_TEST_SUITE(watches)

BOOST_AUTO_TEST_CASE(a_tool_hears_of_its_message_and_one_without_an_id_of_all) {
  Rig rig;
  BOOST_TEST(!rig.watches.any());
  Watching& one = rig.begin("A");
  Watching& every = rig.begin("");
  BOOST_TEST(rig.watches.any());
  rig.watches.tell("A", {.step = Step::active});
  rig.watches.tell("B", {.step = Step::removed});
  rig.settle();
  BOOST_REQUIRE(one.got.size() == 2U);
  BOOST_CHECK(one.got[0].step == Step::watched);
  BOOST_CHECK(one.got[1].step == Step::active);
  BOOST_TEST(one.got[1].queue_id == "A");
  BOOST_TEST(one.got[1].request == 7U);
  BOOST_CHECK(one.got[1].time == rig.clock.wall_now());
  BOOST_TEST(every.got.size() == 3U);
  one.channel->close();
  every.channel->close();
  rig.settle();
  BOOST_TEST(!rig.watches.any());
}

BOOST_AUTO_TEST_CASE(one_that_takes_nothing_is_told_how_much_it_missed) {
  Rig rig;
  Watching& slow = rig.begin("", false);
  const std::string text(1000, 'x');
  constexpr std::size_t kSteps = 5000;
  for (std::size_t i = 0; i < kSteps; ++i) {
    rig.watches.tell("A", {.step = Step::deferred, .text = text});
    if (i % 100 == 0) rig.settle();
  }
  rig.tasks.spawn("tool", read_all(&slow));
  rig.settle();
  std::uint64_t missed = 0, told = 0;
  for (const Happened& what : slow.got) {
    if (what.step == Step::missed) missed += what.count;
    if (what.step == Step::deferred) ++told;
  }
  BOOST_TEST(missed > 0U);
  BOOST_TEST(missed + told == kSteps);
  rig.watches.tell("A", {.step = Step::removed});
  rig.settle();
  BOOST_CHECK(slow.got.back().step == Step::removed);
}

BOOST_AUTO_TEST_CASE(there_may_be_so_many) {
  Rig rig;
  for (std::size_t i = 0; i < Watches::kMost; ++i) rig.begin("A");
  BOOST_TEST(rig.begin("A").refused.contains("watch already"));
  rig.all.front()->channel->close();
  rig.settle();
  BOOST_TEST(rig.begin("A").got.size() == 1U);
}

BOOST_AUTO_TEST_CASE(whatever_a_tool_says_ends_its_watch) {
  Rig rig;
  Watching& w = rig.begin("A");
  (void)w.channel->send(Watch{8, "B"});
  rig.settle();
  BOOST_TEST(!rig.watches.any());
  rig.watches.tell("A", {.step = Step::active});
  rig.settle();
  BOOST_TEST(w.got.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmgr
