#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/suite/ipc/session_errors.h"
#include "lib/suite/ipc/tls_reports.h"
#include "lib/testing/scratch.h"

using namespace pen;
using async::testing::run;

namespace {

/// A program that gets reports of sessions with errors, and reads when the test says so.
struct Told {
  using Server = ipc::Channel<ipc::session_errors::ToBounce, ipc::session_errors::FromBounce>;
  async::Loop loop;
  testing::ScratchDir dir;
  std::string path = dir.file("bounce");
  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  async::Listener::Slot slot;
  std::shared_ptr<ipc::SessionErrors> errors = std::make_shared<ipc::SessionErrors>(loop, path);
  std::uint64_t next = 0;

  Told() { errors->start(); }
  Server accepted() {
    auto a = run(loop, listener.accept()).value();
    slot = std::move(a.slot);
    Server server(run(loop, ipc::greet(std::move(a.stream), {})).value());
    settle();
    return server;
  }
  /// As large as they come.
  void tell(std::size_t many) {
    for (std::size_t i = 0; i < many; ++i) {
      ipc::session_errors::Session s;
      s.peer = std::to_string(next++);
      s.transcript = std::string(16 * 1024, 'x');
      errors->tell(std::move(s));
    }
  }
  /// Whether the sessions from this number up to that (not included) arrive next, in order.
  bool hears(Server& server, std::uint64_t from, std::uint64_t to) { return run(loop, hear(loop, server, from, to)); }
  static async::Task<bool> hear(async::Loop& loop, Server& server, std::uint64_t from, std::uint64_t to) {
    for (; from < to; ++from) {
      auto received = co_await server.receive({.deadline = loop.now() + seconds(20)});
      if (!received) co_return false;
      if (std::get<ipc::session_errors::Session>(received->message).peer != std::to_string(from)) co_return false;
    }
    co_return true;
  }
  void settle() {
    for (int i = 0; i < 20; ++i) loop.run_once(milliseconds(0));
  }
};

constexpr std::size_t kMost = ipc::SessionErrors::kMost;

}  // namespace

BOOST_AUTO_TEST_SUITE(one_way)

BOOST_AUTO_TEST_CASE(what_nobody_reads_is_bounded_and_counted) {
  async::Loop loop;
  ipc::TlsReports reports(loop, "/nonexistent/tlsrpt");
  ipc::tls_report::Attempt attempt;
  attempt.domain = "example.org";
  for (std::size_t i = 0; i < ipc::TlsReports::kMost; ++i) reports.tell(attempt);
  BOOST_TEST(reports.lost() == 0u);
  for (int i = 0; i < 500; ++i) reports.tell(attempt);
  BOOST_TEST(reports.lost() == 500u);
  BOOST_TEST(reports.told() == 0u);
}

BOOST_FIXTURE_TEST_CASE(what_waited_for_the_connection_all_arrives_in_order, Told) {
  tell(kMost);
  Server server = accepted();
  BOOST_TEST(hears(server, 0, kMost));
  BOOST_TEST(errors->lost() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_program_that_stops_reading_and_goes_on_hears_what_waited_meanwhile, Told) {
  tell(1);
  Server server = accepted();
  BOOST_TEST(hears(server, 0, 1));
  for (int round = 0; round < 3; ++round) {
    // More than the socket and the stream hold: some of it waits, and none of it is too much.
    const std::uint64_t before = errors->lost();
    const std::uint64_t first = next;
    tell(kMost - 5);
    settle();
    BOOST_TEST(hears(server, first, next));
    BOOST_TEST(errors->lost() == before);
    tell(1);
    BOOST_TEST(hears(server, next - 1, next));
  }
}

BOOST_FIXTURE_TEST_CASE(a_program_that_does_not_read_costs_no_more_than_the_bound, Told) {
  tell(1);
  Server server = accepted();
  BOOST_TEST(hears(server, 0, 1));
  tell(500);
  settle();
  BOOST_TEST(errors->lost() > 300u);
  const std::uint64_t kept = 500 - errors->lost();
  BOOST_TEST(hears(server, 1, kept + 1));
  BOOST_TEST(errors->told() == kept + 1);
}

BOOST_FIXTURE_TEST_CASE(what_waits_when_the_connection_ends_is_told_on_the_next, Told) {
  tell(1);
  {
    Server server = accepted();
    BOOST_TEST(hears(server, 0, 1));
  }
  settle();
  tell(1);
  Server again = accepted();
  BOOST_TEST(hears(again, 1, 2));
}

BOOST_FIXTURE_TEST_CASE(what_no_frame_can_hold_is_lost_and_holds_up_nothing, Told) {
  ipc::session_errors::Session huge;
  huge.transcript = std::string(64U << 20, 'x');
  errors->tell(std::move(huge));
  tell(1);
  Server server = accepted();
  BOOST_TEST(hears(server, 0, 1));
  BOOST_TEST(errors->lost() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
