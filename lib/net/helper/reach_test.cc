#include "lib/net/helper/reach.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/sync.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::helper {

BOOST_AUTO_TEST_SUITE(reach_servers)

namespace {

using async::SocketAddress;

/// A port of which the kernel answers no more connections: its queue is full and nobody accepts.
struct Hole {
  Hole() {
    for (int i = 0; i < 4; ++i) {
      Fd& fd = full.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(address.port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
  }
  Fd listening = async::listen_on(SocketAddress::inet("127.0.0.1", 0), 0).value();
  SocketAddress address = SocketAddress::inet("127.0.0.1", async::local_address(listening.get())->port);
  std::vector<Fd> full;
};

struct Server {
  explicit Server(const char* host = "127.0.0.1") : listening(async::listen_on(SocketAddress::inet(host, 0)).value()) {}
  Fd listening;
  SocketAddress address = async::local_address(listening.get()).value();
};

/// One attempt on a loop; the test moves its time.
struct Attempt {
  explicit Attempt(std::vector<SocketAddress> ways) {
    gate.spawn("reach", run(this, std::move(ways), {.deadline = clock.now() + seconds(3)}));
    pass(milliseconds(0));
  }
  static async::Task<void> run(Attempt* self, std::vector<SocketAddress> ways, async::Until until) {
    auto stream = co_await reach(self->loop, std::move(ways), until);
    self->said = stream ? "connected" : stream.error().message();
  }
  /// In steps: an address has its part of what is left when the one before it is given up.
  void pass(milliseconds time) {
    for (milliseconds step(10), gone(0); gone <= time; gone += step) {
      for (int i = 0; i < 20; ++i) loop.run_once();
      if (gone < time) clock.advance(step);
    }
  }
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  std::string said;
  async::Gate gate{loop};
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_address_that_swallows_packets_leaves_time_for_the_next) {
  const Hole hole;
  const Server server;
  Attempt attempt({hole.address, hole.address, server.address});
  attempt.pass(milliseconds(1950));
  BOOST_TEST(attempt.said == "");  // the second has had most of its second
  attempt.pass(milliseconds(100));
  BOOST_TEST(attempt.said == "connected");
}

BOOST_AUTO_TEST_CASE(the_error_of_the_last_address_counts) {
  const Hole hole;
  Attempt attempt({hole.address});
  attempt.pass(milliseconds(3050));
  BOOST_TEST(attempt.said == "timed out");
  Attempt none({});
  BOOST_TEST(none.said.contains("no address"));
}

BOOST_AUTO_TEST_CASE(a_server_on_one_loopback_address_is_reached_by_localhost) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const Server server(host);
    const auto at = ServerAddress::parse("inet:localhost:" + std::to_string(server.address.port), {}).value();
    BOOST_TEST(reach_blocking(at, system_clock().now() + seconds(30)).has_value(), host);
    Attempt attempt(at.ways());
    BOOST_TEST(attempt.said == "connected", host);
  }
}

BOOST_AUTO_TEST_CASE(a_thread_gives_each_address_its_part_too) {
  const Hole hole;
  // 127.0.0.1 swallows; nobody listens at ::1, which says so at once when its turn comes.
  const ServerAddress at{.path = {}, .host = "localhost", .port = hole.address.port};
  const SteadyTime begun = system_clock().now();
  const auto fd = reach_blocking(at, begun + milliseconds(400));
  BOOST_TEST(fd.error().is_errno(ECONNREFUSED));
  BOOST_TEST((system_clock().now() - begun >= milliseconds(200)));
}

BOOST_AUTO_TEST_CASE(paths_are_reached_and_names_that_are_none_are_told) {
  const pen::testing::ScratchDir scratch;
  const Fd listening = async::listen_on(SocketAddress::unix(scratch.file("s"))).value();
  BOOST_TEST(reach_blocking({.path = scratch.file("s"), .host = {}, .port = 0}, system_clock().now() + seconds(30))
                 .has_value());
  const auto error = look_up({.path = {}, .host = "no.such.name.invalid", .port = 1}).error();
  BOOST_TEST(error.is(HelperError::no_address));
  BOOST_TEST(error.message().contains("no.such.name.invalid"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::helper
