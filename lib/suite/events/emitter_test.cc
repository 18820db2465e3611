#include "lib/suite/events/emitter.h"

#include <boost/test/unit_test.hpp>

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
  std::uint64_t dropped = 0, expected = 1;

  Reader() { open(loop, {.path = path, .program = "smtpd", .service = "smtp"}); }
  ~Reader() { close(); }
  Server accepted() {
    auto a = run(loop, listener.accept()).value();
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

BOOST_AUTO_TEST_CASE(nobody_who_wants_events_costs_nothing_and_is_no_error) {
  close();
  BOOST_TEST(!wanted());
  tell_many(1, 10);
  BOOST_TEST(events::dropped() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::events
