/// What a connection waits for between its order and its opening.
#include "qmgr/ordered_connections.h"

#include "lib/testing/suite.h"
#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(ordered_connections)

namespace {

/// Notes in words what the edges are asked.
struct Edges final : Ports {
  bool cluster = false;
  std::vector<std::string> told;

  void open_connection(const std::string& transport, const ipc::delivery::OpenConnection& o) override {
    note("open " + transport, o.connection);
  }
  void close_connection(const std::string& transport, ConnectionNumber c) override { note("close " + transport, c); }
  void ask_session(ConnectionNumber c, std::uint32_t session_class, const ipc::Destination&) override {
    note("session of " + std::to_string(session_class), c);
  }
  void release_session(ConnectionNumber c) override { note("session back", c); }
  bool ask_share(ConnectionNumber c, const std::string& key, std::uint32_t limit, const std::string&) override {
    if (cluster) note("share of " + std::to_string(limit) + " at " + key, c);
    return cluster;
  }
  void release_share(ConnectionNumber c) override { note("share back", c); }
  void note(const std::string& what, ConnectionNumber c) { told.push_back(what + " for " + std::to_string(c)); }

  void settle_soon() override {}
  void route(const ipc::route::Route&) override {}
  void hand_job(const std::string&, ipc::delivery::Job&, Fd) override {}
  void notify(const ipc::bounce::Notify&, Fd) override {}
  void probed(ipc::verify::Probed) override {}
  Result<Fd> open_body(std::uint64_t, const std::string&) override { return Fd(); }
  void release_body(std::uint64_t, const std::string&) override {}
  void queue_state(bool) override {}
  [[noreturn]] void fatal(const Error&) override { std::abort(); }
};

struct Fixture : PartsFixture {
  Edges edges;
  Surroundings with_edges{{}, *log, scheduler, edges, clock};
  OrderedConnections connections{with_edges};

  void order(std::optional<std::uint32_t> session_class = std::nullopt) {
    OpenConnection a;
    a.connection = 7;
    a.destination.transport = "smtp";
    a.key = "smtp:mx";
    a.limit = 20;
    a.session_class = session_class;
    connections.order(a);
  }
  void close() { connections.close({.connection = 7, .transport = "smtp"}); }
  void expect(const std::vector<std::string>& lines) {
    BOOST_TEST(edges.told == lines, boost::test_tools::per_element());
    edges.told.clear();
  }
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(one_that_needs_nothing_is_opened_at_once) {
  order();
  expect({"open smtp for 7"});
  BOOST_TEST(connections.waiting() == 0U);
  close();
  expect({"close smtp for 7"});
}

BOOST_AUTO_TEST_CASE(a_lease_comes_first_and_then_the_share_of_the_cluster) {
  edges.cluster = true;
  order(3);
  expect({"session of 3 for 7"});
  connections.share_answer(7, true);  // it does not wait for that
  expect({});
  connections.session_answer(7, true);
  expect({"share of 20 at smtp:mx for 7"});
  connections.session_answer(7, true);  // nor for that any more
  expect({});
  connections.share_answer(7, true);
  expect({"open smtp for 7"});
  BOOST_TEST(connections.waiting() == 0U);
}

BOOST_AUTO_TEST_CASE(one_that_is_refused_is_never_opened_and_gives_back_what_it_has) {
  order(3);
  connections.session_answer(7, false);
  connections.session_answer(7, true);
  expect({"session of 3 for 7"});
  edges.cluster = true;
  order(3);
  connections.session_answer(7, true);
  connections.share_answer(7, false);
  connections.share_answer(7, true);
  expect({"session of 3 for 7", "share of 20 at smtp:mx for 7", "session back for 7"});
}

BOOST_AUTO_TEST_CASE(one_that_is_closed_while_it_waits_is_never_opened) {
  order(3);
  close();
  connections.session_answer(7, true);
  expect({"session of 3 for 7", "session back for 7"});
  edges.cluster = true;
  order();
  close();
  connections.share_answer(7, true);
  expect({"share of 20 at smtp:mx for 7", "share back for 7", "session back for 7"});
  BOOST_TEST(connections.waiting() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
