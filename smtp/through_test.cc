/// Deliveries from sources: bound addresses, names, and proxies.
#include "smtp/through.h"

#include "lib/send/egress/file.h"
#include "smtp/deliveries_fixture.h"

namespace pen::smtp::testing {

using ipc::delivery::Trouble;
using Kind = egress::Proxy::Kind;

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}
const std::string kDone = bytes({5, 0, 0, 1, 127, 0, 0, 1, 0, 25});

/// A proxy that reads and answers as the test says, and is then the host itself.
struct Proxy {
  struct Step {
    std::size_t reads;
    std::string answers;
  };
  async::Loop& loop;
  std::vector<Step> steps;
  bool hangs_up;  // after the last step
  std::string read;
  std::string client;  // its address
  ScriptedPeer peer{PeerOptions{}};
  async::Listener listener;
  unsigned short port;
  async::Gate gate;

  Proxy(async::Loop& l, std::vector<Step> s, bool end = false)
      : loop(l),
        steps(std::move(s)),
        hangs_up(end),
        listener(l, Host::listen(), 10),
        port(async::local_address(listener.fd())->port),
        gate(l) {
    gate.spawn("accept", accept(this));
  }
  static async::Task<void> accept(Proxy* self) {
    const async::Until until{.deadline = kNever, .cancel = &self->gate.cancel()};
    auto accepted = co_await self->listener.accept(until);
    if (!accepted) co_return;
    async::Stream stream = std::move(accepted->stream);
    self->client = async::peer_address(stream.fd())->host;
    for (const Step& step : self->steps) {
      const auto in = co_await stream.read_exact(step.reads, until);
      if (!in) co_return;
      self->read += *in;
      stream.write(step.answers);
    }
    if (self->hangs_up) {
      (void)co_await stream.flush(until);
      co_return;
    }
    for (;;) {
      stream.write(self->peer.take_output());
      if (self->peer.gone()) break;
      const auto in = co_await stream.read_some(65536, until);
      if (!in) break;
      self->peer.input(*in);
    }
  }
};

struct ThroughFixture : DeliveriesFixture {
  void open_through(std::uint64_t id, unsigned short port, ipc::delivery::Through through) {
    ipc::delivery::OpenConnection o;
    o.connection = id;
    o.destination.transport = "smtp";
    o.destination.host = "mx.example";
    o.destination.address = "127.0.0.1";
    o.destination.port = port;
    o.destination.source = through.proxy == 0 ? through.address : std::string();
    through.source = "one";
    o.through = std::move(through);
    BOOST_REQUIRE(hand(std::move(o)));
  }
  static ipc::delivery::Through from(std::string address, std::string helo) {
    ipc::delivery::Through t;
    t.address = std::move(address);
    t.helo = std::move(helo);
    return t;
  }
  static ipc::delivery::Through by(Kind kind, unsigned short port) {
    ipc::delivery::Through t;
    t.address = "127.0.0.77";
    t.helo = "one.example";
    t.proxy = static_cast<std::uint8_t>(kind);
    t.proxy_host = "127.0.0.1";
    t.proxy_port = port;
    return t;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(through, ThroughFixture)

BOOST_AUTO_TEST_CASE(a_source_is_bound_to_and_has_its_own_name) {
  settings.bind_address = "127.0.0.5";  // the source's own counts
  start();
  Proxy host(loop, {});  // no proxy: it only reports its clients
  open_through(1, host.port, from("127.0.0.77", "one.example"));
  const auto id = job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(id).action == mail::Action::delivered));
  BOOST_TEST(host.client == "127.0.0.77");
  BOOST_TEST(host.peer.commands().front() == "EHLO one.example");
}

BOOST_AUTO_TEST_CASE(an_address_that_this_host_lacks_is_the_sources_trouble) {
  start();
  Host host(loop, {});
  open_through(1, host.port, from("192.0.2.1", {}));
  const auto id = job(1, "x\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::source));
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{id}, boost::test_tools::per_element());
  BOOST_TEST(closed[0].status.text == "source one: cannot send from 192.0.2.1: Cannot assign requested address");
}

BOOST_AUTO_TEST_CASE(mail_goes_through_a_proxy_that_wants_a_password) {
  start();
  // What the host says may come with the proxy's last word.
  Proxy proxy(loop, {{3, bytes({5, 2})}, {9, bytes({1, 0})}, {10, kDone}});
  auto through = by(Kind::socks5, proxy.port);
  through.user = "joe";
  through.password = "pwd";
  open_through(1, 2525, through);
  const auto id = job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(id).action == mail::Action::delivered));
  BOOST_TEST((proxy.read == bytes({5, 1, 2, 1, 3}) + "joe" + bytes({3}) + "pwd" +
                                bytes({5, 1, 0, 1, 127, 0, 0, 1, 2525 >> 8, 2525 & 255})));
  BOOST_TEST(proxy.peer.commands().front() == "EHLO one.example");
}

BOOST_AUTO_TEST_CASE(a_proxy_header_goes_before_the_dialogue) {
  start();
  Proxy proxy(loop, {{28, {}}});
  open_through(1, 2525, by(Kind::haproxy, proxy.port));
  const auto id = job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(id).action == mail::Action::delivered));
  BOOST_TEST(
      (proxy.read.substr(12) == bytes({0x21, 0x11, 0, 12, 127, 0, 0, 77, 127, 0, 0, 1, 0, 0, 2525 >> 8, 2525 & 255})));
}

BOOST_AUTO_TEST_CASE(what_the_proxy_says_of_the_host_is_the_hosts_and_the_rest_is_the_sources) {
  start();
  struct Case {
    std::vector<Proxy::Step> steps;
    Trouble trouble;
    std::string
        text;  // behind "source one: proxy socks5://127.0.0.1:PORT: ", or "connect to mx.example[127.0.0.1]:2525: "
  };
  const auto code = [](int c) { return bytes({5, c, 0, 1, 0, 0, 0, 0, 0, 0}); };
  const Case cases[] = {
      {{{3, bytes({5, 0})}, {10, code(5)}}, Trouble::refused, "Connection refused (said the proxy)"},
      {{{3, bytes({5, 0})}, {10, code(6)}}, Trouble::timed_out, "Connection timed out (said the proxy)"},
      {{{3, bytes({5, 0})}, {10, code(4)}}, Trouble::unreachable, "No route to host (said the proxy)"},
      {{{3, bytes({5, 0})}, {10, code(2)}}, Trouble::source, "the proxy's rules do not allow the connection"},
      {{{3, bytes({5, 255})}}, Trouble::source, "the proxy wants a user and password"},
      {{{3, "220 mx ESMTP\r\n"}}, Trouble::source, "the proxy does not speak SOCKS5"},
      {{{3, bytes({5, 0})}, {10, {}}}, Trouble::source, "it hung up"},
  };
  std::uint64_t id = 0;
  for (const Case& c : cases) {
    Proxy proxy(loop, c.steps, true);
    closed.clear();
    open_through(++id, 2525, by(Kind::socks5, proxy.port));
    until([&] { return closed.size() == 1; });
    BOOST_TEST_CONTEXT(c.text) {
      BOOST_TEST((closed[0].trouble == c.trouble));
      BOOST_TEST(!closed[0].opened);
      const std::string head = c.trouble == Trouble::source
                                   ? "source one: proxy socks5://127.0.0.1:" + std::to_string(proxy.port) + ": "
                                   : "connect to mx.example[127.0.0.1]:2525: ";
      BOOST_TEST(closed[0].status.text == head + c.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_proxy_that_is_not_there_or_says_nothing_is_the_sources_trouble) {
  settings.connect_timeout = milliseconds(300);
  start();
  unsigned short port = 0;
  {
    Fd unused = Host::listen();
    port = async::local_address(unused.get())->port;
  }
  open_through(1, 2525, by(Kind::socks5, port));
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::source));
  BOOST_TEST(closed[0].status.text ==
             "source one: proxy socks5://127.0.0.1:" + std::to_string(port) + ": Connection refused");
  Proxy silent(loop, {{100, {}}});
  open_through(2, 2525, by(Kind::socks5, silent.port));
  until([&] { return closed.size() == 2; });
  BOOST_TEST((closed[1].trouble == Trouble::source));
  BOOST_TEST(closed[1].status.text.ends_with(": Connection timed out"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::smtp::testing
