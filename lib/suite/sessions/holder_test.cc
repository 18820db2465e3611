#include "lib/suite/sessions/holder.h"

#include <boost/test/unit_test.hpp>
#include <deque>

#include "lib/base/async/listener.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::sessions {
BOOST_AUTO_TEST_SUITE(holder_of_sessions)

namespace {

using namespace ipc::sessions;
using Server = ipc::Channel<ToAnvil, FromAnvil>;

/// An anvil played by the test, and one holder.
struct Fixture {
  Fixture() { path = scratch.file("anvil"); }

  void start(std::string_view text) {
    holder = std::make_shared<Holder>(loop, path, std::make_shared<const Classes>(*Classes::parse(text)),
                                      Holder::Events{.room = [this](std::uint32_t c) { rooms.push_back(c); },
                                                     .wanted =
                                                         [this](std::uint32_t c) {
                                                           wanted.push_back(c);
                                                           return idle;
                                                         },
                                                     .all_full = [this](bool full) { fulls.push_back(full); }},
                                      Holder::Options{});
    holder->start();
    turn();
  }
  void pass(milliseconds time) {
    clock.advance(time);
    turn();
  }
  void listen() {
    auto fd = async::listen_on(async::SocketAddress::unix(path));
    BOOST_REQUIRE(fd.has_value());
    listener = std::make_unique<async::Listener>(loop, *std::move(fd), 10);
    loop.spawn("anvil", serve(this));
    pass(milliseconds(900));
    BOOST_REQUIRE(holder->connected());
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
  /// kill -9 of anvil, and master holds its socket no more.
  void kill() {
    listener.reset();
    anvil->close();
    turn();
  }
  void turn() {
    for (int i = 0; i < 50; ++i) loop.run_once();
  }
  template <class M>
  void say(const M& m) {
    BOOST_REQUIRE(anvil->send(m).has_value());
    turn();
  }
  std::vector<Take> takes() {
    std::vector<Take> out;
    for (const auto& m : heard)
      if (const auto* t = std::get_if<Take>(&m)) out.push_back(*t);
    return out;
  }
  Holder::Lease take(Direction direction, std::uint32_t in_class = 0) {
    const auto lease = holder->take(direction, in_class, "a.example", "192.0.2.1",
                                    [this, n = asked](bool granted) { answers[n] = granted; });
    ++asked;
    return lease;
  }

  testing::ScratchDir scratch;
  std::string path;
  testing::ManualClock clock;
  async::Loop loop{clock};
  std::shared_ptr<Holder> holder;
  std::unique_ptr<async::Listener> listener;
  std::unique_ptr<Server> anvil;
  std::vector<ToAnvil> heard;
  std::vector<std::uint32_t> rooms, wanted;
  std::vector<bool> fulls;
  bool idle = false;
  int asked = 0;
  std::map<int, bool> answers;
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_lease_is_asked_for_answered_and_given_back) {
  start("*.example 2 2");
  listen();
  const auto lease = take(Direction::outgoing);
  turn();
  BOOST_REQUIRE_EQUAL(heard.size(), 2U);
  BOOST_TEST(std::get<Begin>(heard[0]).listens);
  BOOST_TEST(takes()[0].lease == lease);
  BOOST_TEST(takes()[0].name == "a.example");
  BOOST_TEST(!takes()[0].held);
  BOOST_TEST(answers.empty());
  say(Taken{lease, true, "*.example", 2});
  BOOST_TEST((answers == std::map<int, bool>{{0, true}}));
  holder->release(lease);
  turn();
  BOOST_TEST(std::get<Release>(heard.back()).lease == lease);
  BOOST_TEST(holder->size() == 0U);
}

BOOST_AUTO_TEST_CASE(away_the_limits_hold_for_what_the_process_itself_holds) {
  start("*.example 2 3");
  pass(seconds(5));
  const auto first = take(Direction::outgoing);
  BOOST_TEST(answers.empty());  // never from within take()
  turn();
  take(Direction::outgoing);
  take(Direction::outgoing);
  turn();
  BOOST_TEST((answers == std::map<int, bool>{{0, true}, {1, true}, {2, false}}));
  take(Direction::incoming);
  take(Direction::incoming);
  turn();
  BOOST_TEST(answers.at(3));
  BOOST_TEST(!answers.at(4));
  holder->release(first);
  turn();
  BOOST_TEST(rooms.empty());  // two are left, which is the total limit
}

BOOST_AUTO_TEST_CASE(away_there_is_room_again_when_an_own_session_ends) {
  start("*.example 1 1");
  pass(seconds(5));
  const auto lease = take(Direction::outgoing);
  turn();
  take(Direction::outgoing);
  turn();
  BOOST_TEST(!answers.at(1));
  holder->release(lease);
  BOOST_TEST(rooms.empty());
  turn();
  BOOST_TEST(rooms == std::vector<std::uint32_t>{0});
}

BOOST_AUTO_TEST_CASE(an_anvil_that_comes_back_is_told_of_all_that_lives) {
  start("*.example 5 5");
  listen();
  const auto a = take(Direction::outgoing), b = take(Direction::incoming);
  turn();
  say(Taken{a, true, "*.example", 5});
  say(Taken{b, true, "*.example", 5});
  const auto c = take(Direction::outgoing);  // never answered
  turn();
  kill();
  BOOST_TEST(!holder->connected());
  holder->release(a);
  const auto d = take(Direction::incoming);
  turn();
  BOOST_TEST((answers == std::map<int, bool>{{0, true}, {1, true}}));
  listen();
  std::vector<std::pair<std::uint64_t, bool>> told;
  for (const auto& t : takes()) told.emplace_back(t.lease, t.held);
  BOOST_TEST((told == std::vector<std::pair<std::uint64_t, bool>>{{b, true}, {c, false}, {d, false}}));
  BOOST_TEST(std::get<Begin>(heard.front()).again);
}

BOOST_AUTO_TEST_CASE(what_waits_without_an_answer_is_decided_when_anvil_stays_away) {
  start("*.example 2 2");
  listen();
  for (int i = 0; i < 4; ++i) take(i < 3 ? Direction::outgoing : Direction::incoming);
  turn();
  kill();
  pass(milliseconds(999));
  BOOST_TEST(answers.empty());
  pass(milliseconds(100));  // a client waits no longer; the others may be let in still
  BOOST_TEST((answers == std::map<int, bool>{{3, true}}));
  pass(milliseconds(4000));
  BOOST_TEST((answers == std::map<int, bool>{{0, true}, {1, false}, {2, false}, {3, true}}));
  BOOST_TEST(holder->size() == 2U);
  take(Direction::outgoing);
  turn();
  BOOST_TEST(!answers.at(4));
  listen();
  BOOST_TEST(rooms == std::vector<std::uint32_t>{0});  // the new one may know better
}

BOOST_AUTO_TEST_CASE(an_anvil_that_does_not_answer_counts_as_away) {
  start("*.example 2 2");
  listen();
  take(Direction::incoming);
  turn();
  clock.advance(seconds(4));
  turn();
  BOOST_TEST(answers.empty());
  pass(milliseconds(1100));
  pass(milliseconds(100));
  BOOST_TEST((answers == std::map<int, bool>{{0, true}}));
}

BOOST_AUTO_TEST_CASE(room_comes_by_the_class_in_which_anvil_refused) {
  start("a.example 1 1, *.example 1 1");
  listen();
  const auto a = take(Direction::outgoing, 0), b = take(Direction::outgoing, 1);
  turn();
  say(Taken{a, false, "a.example", 1});
  say(Taken{b, false, "*", 1});  // its settings differ from ours
  say(Room{"*.example"});
  BOOST_TEST(rooms.empty());
  say(Room{"*"});
  BOOST_TEST(rooms == std::vector<std::uint32_t>{1});
  say(Room{"a.example"});
  say(Room{"a.example"});
  BOOST_TEST(rooms == (std::vector<std::uint32_t>{1, 0}));
}

BOOST_AUTO_TEST_CASE(a_wanted_place_is_asked_of_the_program) {
  start("a.example 1 1, *.example 1 1");
  listen();
  say(Wanted{7, "*.example"});
  BOOST_TEST(wanted == std::vector<std::uint32_t>{1});
  BOOST_TEST(!std::get<Yielded>(heard.back()).closing);
  idle = true;
  say(Wanted{8, "*.example"});
  BOOST_TEST(std::get<Yielded>(heard.back()).ask == 8U);
  BOOST_TEST(std::get<Yielded>(heard.back()).closing);
  say(Wanted{9, "other"});
  BOOST_TEST(!std::get<Yielded>(heard.back()).closing);
}

BOOST_AUTO_TEST_CASE(sockets_rest_only_while_an_anvil_says_so) {
  start("* 1 1");
  listen();
  say(AllFull{true});
  BOOST_TEST(fulls == std::vector<bool>{true});
  kill();
  BOOST_TEST(fulls == (std::vector<bool>{true, false}));
}

async::Task<void> visit(std::shared_ptr<Holder> holder, std::string name, std::string address,
                        std::deque<Holder::Entry>* entries) {
  auto entry = co_await holder->enter(std::move(name), std::move(address), {});
  entries->push_back(std::move(entry));
}

BOOST_AUTO_TEST_CASE(who_enters_holds_a_place_and_who_has_no_class_asks_nobody) {
  start("*.example 9 4");
  listen();
  std::deque<Holder::Entry> entries;
  const auto enter = [&](const char* name) {
    loop.spawn("visit", visit(holder, name, "192.0.2.1", &entries));
    turn();
  };
  enter("mx.other");
  BOOST_REQUIRE_EQUAL(entries.size(), 1U);
  BOOST_TEST(entries[0].granted);
  BOOST_TEST(takes().empty());
  enter("a.example");
  BOOST_TEST(entries.size() == 1U);
  say(Taken{takes().at(0).lease, true, "*.example", 4});
  enter("b.example");
  say(Taken{takes().at(1).lease, false, "*.example", 4});
  BOOST_REQUIRE_EQUAL(entries.size(), 3U);
  BOOST_TEST(entries[1].granted);
  BOOST_TEST(!entries[2].granted);
  BOOST_TEST(entries[2].refused_by->refuse == 4U);
  BOOST_TEST(holder->size() == 1U);
  entries.clear();
  turn();
  BOOST_TEST(holder->size() == 0U);
  BOOST_TEST(std::get<Release>(heard.back()).lease == takes().at(0).lease);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sessions
