// Handshakes of transports: each step queues up, and other streams come first.
#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/base/async/transport.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/suite.h"

namespace pen::async {
BOOST_AUTO_TEST_SUITE(handshakes)

namespace {

using pen::testing::ManualClock;
using testing::run;
using testing::store_result;
using testing::stream_pair;

/// A transport with a handshake that reads a number of bytes, one by each step; a step takes as long as the script
/// says.
class Slow final : public Transport {
 public:
  struct Script {
    ManualClock* clock = nullptr;
    milliseconds step{0};
    unsigned bytes = 0;  // that the peer must send
    unsigned steps = 0;  // done so far
  };
  Slow(int fd, Script* script) : fd_(fd), script_(script) {}

  Outcome handshake() override {
    ++script_->steps;
    if (script_->clock != nullptr) script_->clock->advance(script_->step);
    while (script_->bytes != 0) {
      char byte = 0;
      const ssize_t n = ::recv(fd_, &byte, 1, MSG_DONTWAIT);
      if (n < 0) return {.want = Want::read};
      if (n == 0) return {.error = ECONNRESET};
      --script_->bytes;
    }
    return {};
  }
  Outcome read(MutableBytes into) override {
    const ssize_t n = ::recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
    if (n < 0) return {.want = Want::read};
    return {.bytes = static_cast<std::size_t>(n)};
  }
  Outcome write(std::span<const Bytes> pieces) override {
    const ssize_t n = ::send(fd_, pieces.front().data(), pieces.front().size(), MSG_NOSIGNAL);
    if (n < 0) return {.want = Want::write};
    return {.bytes = static_cast<std::size_t>(n)};
  }

 private:
  int fd_;
  Script* script_;
};

Task<std::string> greet(Stream* s, Until until = {}) {
  auto done = co_await s->handshake(until);
  co_return done ? "done" : done.error().message();
}

struct Fixture {
  Fixture() : loop(clock), pair(stream_pair(loop)) {}
  void start(Slow::Script* script) { pair.a.start_transport(std::make_unique<Slow>(pair.a.fd(), script)); }
  void turns(int count = 5) {
    for (int i = 0; i < count; ++i) loop.run_once();
  }
  ManualClock clock;
  Loop loop;
  testing::Pair pair;
  std::optional<std::string> end;
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(it_ends_at_once_where_nothing_is_to_be_waited_for) {
  Slow::Script script;
  start(&script);
  BOOST_TEST(run(loop, greet(&pair.a)) == "done");
  BOOST_TEST(script.steps == 1U);
}

BOOST_AUTO_TEST_CASE(it_goes_on_as_the_peer_speaks_and_what_comes_behind_it_is_read) {
  Slow::Script script{.bytes = 3};
  start(&script);
  loop.spawn("greet", store_result(greet(&pair.a), &end));
  turns();
  BOOST_TEST(script.steps == 1U);
  pair.b.write("ab");
  turns();
  BOOST_TEST(script.bytes == 1U);
  BOOST_TEST(!end.has_value());
  pair.b.write("chello\n");
  turns();
  BOOST_TEST(end.value() == "done");
  BOOST_TEST(run(loop, pair.a.read_line(100)).value() == "hello");
}

/// Many transports that begin their handshakes at the same time; each needs one step.
struct Queue {
  Queue(Fixture& f, unsigned count, milliseconds step) : gate(f.loop), ends(count) {
    script = {.clock = &f.clock, .step = step};
    for (unsigned i = 0; i < count; ++i) {
      pairs.push_back(stream_pair(f.loop));
      pairs[i].a.start_transport(std::make_unique<Slow>(pairs[i].a.fd(), &script));
    }
    for (unsigned i = 0; i < count; ++i) gate.spawn("greet", store_result(greet(&pairs[i].a), &ends[i]));
  }
  Slow::Script script;
  std::vector<testing::Pair> pairs;
  Gate gate;
  std::vector<std::optional<std::string>> ends;
};

BOOST_AUTO_TEST_CASE(long_steps_that_come_together_are_done_one_in_a_turn) {
  Queue queue(*this, 50, milliseconds(1));
  std::optional<Result<std::string_view>> line;
  loop.spawn("other", store_result(pair.a.read_line(100), &line));
  pair.b.write("NOOP\n");
  unsigned most = 0;
  while (queue.script.steps < 50) {
    const unsigned before = queue.script.steps;
    // One call does the ready work before and after it looks at I/O: the work of two turns.
    loop.run_once();
    most = std::max(most, queue.script.steps - before);
    // The other session got its line before most handshakes had their turn.
    if (queue.script.steps > 6) BOOST_TEST(line.has_value());
  }
  BOOST_TEST(most <= 2U);
  turns();
  for (const auto& one : queue.ends) BOOST_TEST(one.value() == "done");
}

BOOST_AUTO_TEST_CASE(short_steps_share_a_turn) {
  Queue queue(*this, 50, milliseconds(0));
  loop.run_once();
  BOOST_TEST(queue.script.steps == 50U);
  turns();
  for (const auto& one : queue.ends) BOOST_TEST(one.value() == "done");
}

BOOST_AUTO_TEST_CASE(who_waits_for_its_turn_is_ended_by_its_deadline) {
  Queue queue(*this, 20, milliseconds(1));
  Slow::Script script;
  start(&script);
  loop.spawn("greet", store_result(greet(&pair.a, {.deadline = loop.now() + milliseconds(3)}), &end));
  for (int i = 0; i < 100 && !end; ++i) {
    clock.advance(milliseconds(16));
    loop.run_once();
  }
  BOOST_TEST(end.value() == "timed out");
  turns(30);
  BOOST_TEST(script.steps == 0U);
  BOOST_TEST(queue.script.steps == 20U);
}

BOOST_AUTO_TEST_CASE(who_waits_for_its_turn_may_be_closed_or_destroyed) {
  Queue queue(*this, 20, milliseconds(1));
  Slow::Script closed, gone;
  start(&closed);
  loop.spawn("greet", store_result(greet(&pair.a), &end));
  {
    testing::Pair other = stream_pair(loop);
    other.a.start_transport(std::make_unique<Slow>(other.a.fd(), &gone));
    Gate gate(loop);
    std::optional<std::string> never;
    gate.spawn("greet", store_result(greet(&other.a), &never));
    loop.run_once();
    BOOST_TEST(!never.has_value());
  }
  pair.a.close();
  turns(30);
  BOOST_TEST(end.value() == "connection closed");
  BOOST_TEST(closed.steps == 0U);
  BOOST_TEST(gone.steps == 0U);
  BOOST_TEST(queue.script.steps == 20U);
}

BOOST_AUTO_TEST_CASE(the_stream_may_die_before_who_waits_for_it) {
  Queue queue(*this, 20, milliseconds(1));
  Slow::Script script;
  {
    testing::Pair other = stream_pair(loop);
    other.a.start_transport(std::make_unique<Slow>(other.a.fd(), &script));
    loop.spawn("greet", store_result(greet(&other.a), &end));
    loop.run_once();
  }
  turns(30);
  BOOST_TEST(end.value() == "connection closed");
  BOOST_TEST(script.steps == 0U);
}

BOOST_AUTO_TEST_CASE(news_that_come_while_it_waits_for_its_turn_are_not_told_in_every_turn) {
  Slow::Script script{.bytes = 2};
  start(&script);
  loop.spawn("greet", store_result(greet(&pair.a), &end));
  turns();
  Queue queue(*this, 20, milliseconds(1));
  pair.b.write("x");
  turns(2);
  BOOST_TEST(script.bytes == 2U);  // others are ahead of it
  pair.b.write("y");
  turns(30);
  BOOST_TEST(end.value() == "done");
  BOOST_TEST(script.steps <= 3U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_leaves_ends_it) {
  Slow::Script script{.bytes = 2};
  start(&script);
  loop.spawn("greet", store_result(greet(&pair.a), &end));
  turns();
  pair.b.close();
  turns();
  BOOST_TEST(end.value().find("reset") != std::string::npos, end.value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::async
