#pragma once
/// For tests of deliveries: hosts on loopback, and deliveries whose answers are kept.
///
/// Use:     BOOST_FIXTURE_TEST_SUITE(…, DeliveriesFixture):  start(); Host host(loop, options); open(1, host.port);
///          job(1, "x"); until([&] { return closed.size() == 1; });
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <optional>

#include "lib/base/async/listener.h"
#include "lib/base/log.h"
#include "lib/meaning/smtp/tls.h"
#include "smtp/deliveries.h"
#include "smtp/testing/scripted_peer.h"

namespace pen::smtp::testing {

/// A host on loopback: every connection is served by a ScriptedPeer of its own.
struct Host {
  async::Loop& loop;
  PeerOptions options;
  std::vector<std::unique_ptr<ScriptedPeer>> peers;
  async::Listener listener;
  unsigned short port;
  int ended = 0;
  bool silent = false;                      // reads but never answers
  std::size_t cut_after = SIZE_MAX;         // hangs up after this many bytes read
  bool reset = false;                       // hang up with RST
  milliseconds pause{0};                    // before each 64 KiB that it reads
  std::shared_ptr<const tls::Context> tls;  // for STARTTLS
  bool shakes_hands = true;                 // false: agrees to STARTTLS and then stays silent
  std::vector<Result<tls::SessionInfo>> handshakes;
  async::Gate gate;

  Host(async::Loop& l, PeerOptions o)
      : loop(l),
        options(std::move(o)),
        listener(l, listen(), 1000),
        port(async::local_address(listener.fd())->port),
        gate(l) {
    gate.spawn("accept", accept_all(this));
  }
  static Fd listen() { return std::move(*async::listen_on(async::SocketAddress::inet("127.0.0.1", 0))); }
  static async::Task<void> accept_all(Host* self) {
    for (;;) {
      auto accepted = co_await self->listener.accept({.deadline = kNever, .cancel = &self->gate.cancel()});
      if (!accepted) co_return;
      self->peers.push_back(std::make_unique<ScriptedPeer>(self->options));
      self->gate.spawn("serve", serve(self, self->peers.back().get(), std::move(*accepted)));
    }
  }
  static async::Task<void> serve(Host* self, ScriptedPeer* peer, async::Listener::Accepted a) {
    const async::Until until{.deadline = kNever, .cancel = &self->gate.cancel()};
    std::size_t read = 0;
    bool shaken = false;
    for (;;) {
      const auto out = peer->take_output();
      if (!self->silent) a.stream.write(out);
      if (peer->gone()) {
        (void)co_await a.stream.flush(until);
        break;
      }
      if (self->pause.count() > 0 && !co_await self->loop.sleep(self->pause, until)) break;
      auto in = co_await a.stream.read_some(std::min<std::size_t>(65536, self->cut_after - read), until);
      if (!in) break;
      peer->input(*in);
      read += in->size();
      if (peer->encrypted() && !shaken && self->tls) {
        shaken = true;
        a.stream.write(peer->take_output());
        if (!co_await a.stream.flush(until)) break;
        if (!self->shakes_hands) {
          while (co_await a.stream.read_some(65536, until)) {
          }
          break;
        }
        self->handshakes.push_back(co_await tls::accept(a.stream, self->tls, until));
        if (!self->handshakes.back()) break;
        continue;
      }
      if (read < self->cut_after) continue;
      a.stream.write(peer->take_output());
      (void)co_await a.stream.flush(until);
      const linger at_once{1, 0};
      if (self->reset) BOOST_TEST(::setsockopt(a.stream.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
      break;
    }
    ++self->ended;
  }
};

struct DeliveriesFixture {
  async::Loop loop;
  Settings settings;
  std::vector<ipc::delivery::ConnectionOpened> opened;
  std::vector<ipc::delivery::ConnectionClosed> closed;
  std::vector<std::uint64_t> gone;
  std::map<std::uint64_t, ipc::delivery::JobResult> results;
  std::unique_ptr<ClientTls> client_tls;       // made by a test that wants TLS
  ipc::TlsPolicy policy;                       // of the destinations that open() opens
  std::string sender = "a@x.example";          // of the messages that job() submits
  mail::BodyFacts facts;                       // the same, but for the size
  std::optional<delivery::Conversation> qmgr;  // the program's end
  std::unique_ptr<Deliveries> deliveries;
  std::uint8_t* stages = nullptr;
  std::uint64_t next_job = 1;
  async::Gate listening{loop};

  DeliveriesFixture() {
    settings.helo_name = "me.example";
    BOOST_REQUIRE(log::open({.program = "smtp", .hostname = {}, .target = log::Target::file, .path = "/dev/null"}));
  }
  void start() {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    deliveries.reset();
    qmgr.emplace(delivery::Channel(async::Stream(loop, Fd(ends[0])), ipc::delivery::kName, {}));
    listening.spawn("listen", listen(this, QmgrSide(async::Stream(loop, Fd(ends[1])), ipc::delivery::kName, {})));
    deliveries = std::make_unique<Deliveries>(loop, settings, *qmgr, client_tls.get());
    auto page = ipc::make_stage_page(64);
    BOOST_REQUIRE(page.has_value());
    stages = static_cast<std::uint8_t*>(::mmap(nullptr, 64, PROT_READ, MAP_SHARED, page->get(), 0));
    std::vector<Fd> fds;
    fds.push_back(*std::move(page));
    BOOST_REQUIRE(hand(ipc::delivery::StagePage{64}, fds));
  }
  using QmgrSide = ipc::Channel<ipc::delivery::FromProgram, ipc::delivery::ToProgram>;
  static async::Task<void> listen(DeliveriesFixture* self, QmgrSide side) {
    for (;;) {
      const auto answer = co_await side.receive({.cancel = &self->listening.cancel()});
      if (!answer) co_return;
      const ipc::delivery::FromProgram& m = answer->message;
      if (const auto* o = std::get_if<ipc::delivery::ConnectionOpened>(&m)) self->opened.push_back(*o);
      if (const auto* c = std::get_if<ipc::delivery::ConnectionClosed>(&m)) self->closed.push_back(*c);
      if (const auto* g = std::get_if<ipc::delivery::ConnectionGone>(&m)) self->gone.push_back(g->connection);
      if (const auto* r = std::get_if<ipc::delivery::JobResult>(&m))
        BOOST_TEST(self->results.emplace(r->job, *r).second, "one result per job");
    }
  }
  Result<void> hand(ipc::delivery::ToProgram message, std::span<Fd> fds = {}) {
    return delivery::hand_on(*qmgr, *deliveries, std::move(message), fds);
  }
  void open(std::uint64_t id, unsigned short port, bool clear_text = false, bool requiretls = false) {
    ipc::delivery::OpenConnection o;
    o.connection = id;
    o.destination.transport = "smtp";
    o.destination.host = "mx.example";
    o.destination.address = "127.0.0.1";
    o.destination.port = port;
    o.destination.tls = policy;
    o.destination.requiretls = requiretls;
    o.clear_text = clear_text;
    BOOST_REQUIRE(hand(std::move(o)));
  }
  std::uint64_t job(std::uint64_t connection, std::string_view content, bool by_file = false, bool broken = false,
                    bool other_hosts = false) {
    ipc::delivery::Job j;
    j.job = next_job++;
    j.connection = connection;
    j.slot = static_cast<std::uint32_t>(j.job % 64);
    j.queue_id = "Q" + std::to_string(j.job);
    j.sender = sender;
    j.recipients.emplace_back();
    j.recipients[0].ordinal = 7;
    j.recipients[0].recipient.address = "r" + std::to_string(j.job) + "@x.example";
    j.body = facts;
    j.body.size = content.size();
    j.other_hosts = other_hosts;
    std::vector<Fd> fds;
    if (by_file) {
      Fd file(::memfd_create("body", 0));
      j.body_offset = 512;
      if (!broken)
        BOOST_REQUIRE(::pwrite(file.get(), content.data(), content.size(), 512) ==
                      static_cast<ssize_t>(content.size()));
      fds.push_back(std::move(file));
    } else {
      j.inline_body = content;
    }
    const auto id = j.job;
    BOOST_REQUIRE(hand(std::move(j), fds));
    return id;
  }
  template <class Condition>
  void until(Condition done) {
    for (int i = 0; i < 20000 && !done(); ++i) loop.run_once(milliseconds(20));
    BOOST_REQUIRE(done());
  }
  const mail::DeliveryStatus& status(std::uint64_t id) {
    BOOST_REQUIRE(results.contains(id));
    BOOST_REQUIRE(results[id].results.size() == 1u);
    BOOST_REQUIRE(results[id].results[0].ordinals == std::vector<std::uint32_t>{7});
    return results[id].results[0].status;
  }
};

}  // namespace pen::smtp::testing
