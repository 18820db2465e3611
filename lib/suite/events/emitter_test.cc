#include "lib/suite/events/emitter.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "lib/base/async/listener.h"
#include "lib/base/async/testing/run.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/events.h"
#include "lib/testing/scratch.h"

namespace pen::events {
namespace {

using async::testing::run;

/// penevents, which reads when the test says so.
struct Reader {
  using Server = ipc::Channel<ipc::events::ToEvents, ipc::events::FromEvents>;
  async::Loop loop;
  testing::ScratchDir dir;
  std::string path = dir.file("events");
  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  async::Listener::Slot slot;
  std::size_t frames = 0;
  std::uint64_t dropped = 0, expected = 1, bytes = 0;

  std::vector<std::string> reports;

  Reader() {
    open(loop, {.path = path, .program = "smtpd", .service = "smtp", .report = [this](const std::string& line) {
                  reports.push_back(line);
                }});
  }
  ~Reader() { close(); }
  Server accepted() {
    auto a = run(loop, listener.accept({.deadline = loop.now() + seconds(5)})).value();
    slot = std::move(a.slot);
    return Server(run(loop, ipc::greet(std::move(a.stream), {})).value());
  }
  void tell_many(std::uint64_t from, std::uint64_t to, std::size_t size = 10) {
    const std::string text(size, 'x');
    for (; from < to; ++from) tell(Event(Type::order, now()).number(Field::count, from).text(Field::reply, text));
  }
  /// Reads events until the one with this number; they come in order.
  static async::Task<bool> hear(Reader* r, Server* server, std::uint64_t last) {
    while (r->expected <= last) {
      auto received = co_await server->receive({.deadline = r->loop.now() + seconds(20)});
      if (!received) co_return false;
      const auto& told = std::get<ipc::events::Told>(received->message);
      ++r->frames;
      r->bytes += told.events.size();
      r->dropped += told.dropped;
      std::string_view rest = told.events;
      while (auto seen = next(rest))
        if (seen->number(Field::count) != r->expected++) co_return false;
      if (!rest.empty() || told.program != "smtpd" || told.service != "smtp") co_return false;
    }
    co_return true;
  }
};

BOOST_FIXTURE_TEST_SUITE(emitter, Reader)

BOOST_AUTO_TEST_CASE(events_of_a_moment_are_one_frame) {
  BOOST_TEST(wanted());
  tell_many(1, 101);
  Server server = accepted();
  BOOST_TEST(run(loop, hear(this, &server, 100)));
  BOOST_TEST(frames == 1U);
  tell_many(101, 201);
  BOOST_TEST(run(loop, hear(this, &server, 200)));
  BOOST_TEST(frames == 2U);
}

BOOST_AUTO_TEST_CASE(what_nobody_reads_is_bounded_and_the_reader_learns_how_much_is_gone) {
  tell_many(1, 5001, 1000);  // 5 MB
  BOOST_TEST(events::dropped() > 1000U);
  const std::uint64_t kept = 5000 - events::dropped();
  BOOST_TEST(kept * 1000 <= kMaxWaiting);
  Server server = accepted();
  BOOST_TEST(run(loop, hear(this, &server, kept)));
  BOOST_TEST(frames > 1U);  // a frame has a limit
  BOOST_TEST(dropped == events::dropped());
}

/// A penevents that ends after it has heard the events from `first` on.
void dies_after(Reader& r, std::uint64_t first, std::uint64_t last, bool says_that_they_are_written) {
  Reader::Server server = r.accepted();
  r.expected = first;
  r.bytes = 0;
  BOOST_TEST(run(r.loop, Reader::hear(&r, &server, last)));
  if (!says_that_they_are_written) return;
  BOOST_REQUIRE(server.send(ipc::events::Written{r.bytes}));
  BOOST_TEST(run(r.loop, server.flush()).has_value());
}

BOOST_AUTO_TEST_CASE(what_a_dead_reader_has_not_written_is_told_to_the_next_one) {
  tell_many(1, 101);
  dies_after(*this, 1, 100, false);
  tell_many(101, 111);
  dies_after(*this, 1, 110, true);
  tell_many(111, 121);
  dies_after(*this, 111, 120, false);
  dies_after(*this, 111, 120, true);
  BOOST_TEST(events::dropped() == 0U);
}

BOOST_AUTO_TEST_CASE(what_ends_every_reader_is_dropped_and_counted) {
  tell_many(1, 101);
  for (int i = 0; i < 3; ++i) dies_after(*this, 1, 100, false);
  tell_many(101, 111);
  dies_after(*this, 101, 110, true);
  BOOST_TEST(events::dropped() == 100U);
  BOOST_TEST(dropped == 100U);
}

BOOST_AUTO_TEST_CASE(a_count_of_dropped_events_is_told_again_until_it_is_written_and_no_more_then) {
  tell_many(1, 5001, 1000);
  const std::uint64_t gone = events::dropped(), kept = 5000 - gone;
  for (int i = 0; i < 2; ++i) {
    dropped = 0;
    dies_after(*this, 1, kept, false);
    BOOST_TEST(dropped == gone);
  }
  dropped = 0;
  dies_after(*this, 1, kept, false);  // the third one: what it was told is given up, and the count before stays
  tell_many(kept + 1, kept + 2);
  dropped = 0;
  {
    Server server = accepted();
    expected = kept + 1;
    bytes = 0;
    BOOST_TEST(run(loop, hear(this, &server, kept + 1)));
    BOOST_TEST(dropped == 5000U);
    // It is written; what comes then is not, and brings no count of before.
    BOOST_REQUIRE(server.send(ipc::events::Written{bytes}));
    tell_many(kept + 2, kept + 3);
    BOOST_TEST(run(loop, hear(this, &server, kept + 2)));
  }
  dropped = 0;
  dies_after(*this, kept + 2, kept + 2, true);
  BOOST_TEST(dropped == 0U);
}

BOOST_AUTO_TEST_CASE(a_program_that_ends_waits_until_its_events_are_written) {
  tell_many(1, 11);
  Server server = accepted();
  bool settled = false;
  static constexpr auto kWait = [](bool* done) -> async::Task<void> {
    co_await settle();
    *done = true;
  };
  loop.spawn("end", kWait(&settled));
  const SteadyTime began = loop.now();
  BOOST_TEST(run(loop, hear(this, &server, 10)));
  while (loop.now() < began + milliseconds(50)) loop.run_once(milliseconds(10));
  if (loop.now() < began + milliseconds(400)) BOOST_TEST(!settled);  // after half a second it has waited in vain
  BOOST_REQUIRE(server.send(ipc::events::Written{bytes}));
  while (!settled) loop.run_once(seconds(1));
  if (loop.now() < began + milliseconds(400)) BOOST_TEST(reports == std::vector<std::string>());
  BOOST_TEST(run(loop, server.flush()).has_value());
}

BOOST_AUTO_TEST_CASE(a_program_that_ends_says_what_nobody_has_written) {
  tell_many(1, 11);
  run(loop, settle());
  BOOST_REQUIRE(!reports.empty());
  BOOST_TEST(reports.back().starts_with("10 events may be lost"));
}

BOOST_AUTO_TEST_CASE(nobody_who_wants_events_costs_nothing_and_is_no_error) {
  close();
  BOOST_TEST(!wanted());
  tell_many(1, 10);
  BOOST_TEST(events::dropped() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::events
