#include "lib/suite/ipc/channel.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/route.h"
#include "lib/testing/scratch.h"

namespace pen::ipc {
namespace {

using async::Listener;
using async::Loop;
using async::Stream;
using async::Task;
using async::testing::run;
using async::testing::store_result;

using Client = Channel<enqueue::FromQmgr, enqueue::ToQmgr>;
using Server = Channel<enqueue::ToQmgr, enqueue::FromQmgr>;

struct Fixture {
  Loop loop;
  pen::testing::ScratchDir dir;
  std::string path = dir.file("socket");
  Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  Listener::Slot slot;

  Stream accepted() {
    auto a = run(loop, listener.accept()).value();
    slot = std::move(a.slot);
    return std::move(a.stream);
  }
  struct Both {
    Client client;
    Server server;
  };
  Both connected() {
    std::optional<Result<Client>> client;
    loop.spawn("client",
               store_result(connect_channel<enqueue::FromQmgr, enqueue::ToQmgr>(loop, path, enqueue::kName), &client));
    Server server(run(loop, greet(accepted(), {})).value());
    while (!client) loop.run_once(milliseconds(10));
    return {std::move(client->value()), std::move(server)};
  }
  Stream raw_client() { return run(loop, async::connect(loop, async::SocketAddress::unix(path))).value(); }
  void settle() {
    for (int i = 0; i < 10; ++i) loop.run_once();
  }
};

std::string hello(Hello h) {
  std::string text;
  BOOST_TEST(encode_frame<HelloMessage>(text, h, 0, kMaxHello));
  return text;
}
std::string header(std::uint32_t size) {
  std::byte raw[4];
  store_le(raw, size);
  return std::string(as_text(raw));
}

BOOST_FIXTURE_TEST_SUITE(channel, Fixture)

BOOST_AUTO_TEST_CASE(messages_arrive_typed_and_in_order_both_ways) {
  auto [client, server] = connected();
  BOOST_TEST(server.conversation() == "enqueue");
  BOOST_TEST(server.peer().uid == ::getuid());
  enqueue::Enqueue message;
  message.request = 7;
  message.envelope.sender = "a@example.org";
  message.inline_body = "Subject: x\r\n\r\nbody";
  BOOST_TEST(client.send(enqueue::LeaseSpool{.request = 6, .expected_size = 100}).has_value());
  BOOST_TEST(client.send(message).has_value());
  auto first = run(loop, server.receive()).value();
  BOOST_TEST(std::get<enqueue::LeaseSpool>(first.message).expected_size == 100U);
  auto second = run(loop, server.receive()).value();
  const auto& got = std::get<enqueue::Enqueue>(second.message);
  BOOST_TEST(got.request == 7U);
  BOOST_TEST(got.envelope.sender == "a@example.org");
  BOOST_TEST(got.inline_body == message.inline_body);
  BOOST_TEST(server.send(enqueue::Enqueued{.request = 7, .text = ""}).has_value());
  auto answer = run(loop, client.receive()).value();
  BOOST_TEST(std::get<enqueue::Enqueued>(answer.message).request == 7U);
}

BOOST_AUTO_TEST_CASE(descriptors_come_with_their_own_frame) {
  auto [client, server] = connected();
  for (const char* name : {"a", "b"}) {
    std::vector<Fd> fds;
    fds.emplace_back(::open(dir.write(name, name).c_str(), O_RDONLY | O_CLOEXEC));
    BOOST_TEST(server.send(enqueue::SpoolLeased{.request = 1}, fds).has_value());
    BOOST_TEST(server.send(enqueue::QueueState{}).has_value());
  }
  BOOST_TEST(run(loop, server.flush()).has_value());
  for (const char* name : {"a", "b"}) {
    auto leased = run(loop, client.receive()).value();
    BOOST_REQUIRE(leased.fds.size() == 1U);
    char c = 0;
    BOOST_TEST(::pread(leased.fds[0].get(), &c, 1, 0) == 1);
    BOOST_TEST(c == name[0]);
    BOOST_TEST(run(loop, client.receive()).value().fds.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_large_body_passes_and_one_beyond_the_bound_is_refused_before_it_leaves) {
  auto [client, server] = connected();
  const std::string body(3'000'000, 'b');
  enqueue::Enqueue message;
  message.inline_body = body;
  BOOST_TEST(client.send(message).has_value());
  BOOST_TEST(client.congested());
  auto got = run(loop, server.receive()).value();
  BOOST_TEST((std::get<enqueue::Enqueue>(got.message).inline_body == body));
  const std::string huge(max_frame(enqueue::kName), 'b');
  message.inline_body = huge;
  BOOST_TEST(client.send(message).error().is(IpcError::frame_too_large));
  Fd with[] = {Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
  BOOST_TEST(client.send(message, with).error().is(IpcError::frame_too_large));
  BOOST_TEST(static_cast<bool>(with[0]));  // not taken, and nothing after it brings it
  BOOST_TEST(client.send(enqueue::ReturnLease{.lease = 3}).has_value());
  got = run(loop, server.receive()).value();
  BOOST_TEST(got.fds.empty());
  BOOST_TEST(std::get<enqueue::ReturnLease>(got.message).lease == 3U);
}

BOOST_AUTO_TEST_CASE(what_a_bad_peer_sends_closes_the_channel_and_is_named) {
  struct Case {
    std::string bytes;
    IpcError error;
  };
  const std::string unknown_type = header(3) + std::string("\0\x63x", 3);
  const std::string truncated = header(3) + std::string("\0\x02\xff", 3);
  const std::string left_over = header(6) + std::string("\0\x01\x05zzz", 6);
  const Case cases[] = {
      {header(0x7fffffff), IpcError::frame_too_large},
      {header(0), IpcError::malformed_frame},
      {unknown_type, IpcError::malformed_frame},
      {truncated, IpcError::malformed_frame},
      {left_over, IpcError::malformed_frame},
      {header(3) + std::string("\x01\x01\x05", 3), IpcError::descriptors_missing},
      {header(3) + std::string("\x7f\x01\x05", 3), IpcError::malformed_frame},
  };
  for (const Case& c : cases) {
    Stream client = raw_client();
    client.write(hello({.conversation = "enqueue"}) + c.bytes);
    Server server(run(loop, greet(accepted(), {})).value());
    const auto r = run(loop, server.receive());
    BOOST_REQUIRE(!r.has_value());
    BOOST_TEST(r.error().is(c.error), r.error().message());
    BOOST_TEST(r.error().message().starts_with("enqueue"));
    BOOST_TEST(!server.is_open());
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_hello_is_told_apart) {
  struct Case {
    std::string bytes;
    IpcError error;
  };
  const Case cases[] = {
      {"GET / HTTP/1.0\r\n\r\n", IpcError::not_a_hello},
      {hello({.magic = 1, .conversation = "enqueue"}), IpcError::not_a_hello},
      {hello({.conversation = "enqueue", .version = 99}), IpcError::wrong_version},
  };
  for (const Case& c : cases) {
    Stream client = raw_client();
    client.write(c.bytes);
    BOOST_TEST(run(loop, greet(accepted(), {})).error().is(c.error));
  }
}

BOOST_AUTO_TEST_CASE(the_client_learns_that_the_server_speaks_something_else) {
  std::optional<Result<Client>> client;
  loop.spawn("client",
             store_result(connect_channel<enqueue::FromQmgr, enqueue::ToQmgr>(loop, path, enqueue::kName), &client));
  Stream server = accepted();
  server.write(hello({.conversation = "route"}));
  while (!client) loop.run_once(milliseconds(10));
  BOOST_TEST(client->error().is(IpcError::wrong_conversation));
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_between_frames_is_just_closed) {
  auto [client, server] = connected();
  client.close();
  BOOST_TEST(run(loop, server.receive()).error().is(async::WaitError::closed));
}

BOOST_AUTO_TEST_CASE(a_wait_given_up_between_frames_can_be_taken_up_again) {
  auto [client, server] = connected();
  async::Cancel cancel;
  std::optional<Result<Server::Received>> got;
  loop.spawn("r", store_result(server.receive({.cancel = &cancel}), &got));
  settle();
  cancel.raise();
  settle();
  BOOST_TEST(got.value().error().is(async::WaitError::cancelled));
  BOOST_TEST(client.send(enqueue::ReturnLease{.lease = 3}).has_value());
  BOOST_TEST(run(loop, server.receive()).has_value());
}

BOOST_AUTO_TEST_CASE(a_wait_given_up_within_a_frame_can_be_taken_up_again) {
  auto [client, server] = connected();
  std::string frame;
  BOOST_TEST(encode_frame<enqueue::ToQmgr>(frame, enqueue::ReturnLease{.lease = 3}, 0, 1000));
  for (std::size_t part = 1; part < frame.size(); ++part) {
    client.stream().write(std::string_view(frame).substr(0, part));
    async::Cancel cancel;
    std::optional<Result<Server::Received>> got;
    loop.spawn("r", store_result(server.receive({.cancel = &cancel}), &got));
    settle();
    cancel.raise();
    settle();
    BOOST_TEST(got.value().error().is(async::WaitError::cancelled));
    BOOST_TEST(run(loop, server.receive({.deadline = loop.now()})).error().is(async::WaitError::timed_out));
    client.stream().write(std::string_view(frame).substr(part));
    const auto rest = run(loop, server.receive());
    BOOST_REQUIRE(rest.has_value());
    BOOST_TEST(std::get<enqueue::ReturnLease>(rest->message).lease == 3U);
  }
}

BOOST_AUTO_TEST_CASE(behind_the_hellos_a_stream_is_as_any_other) {
  std::optional<Result<Stream>> client;
  loop.spawn("client", store_result(connect_stream(loop, path, "logins"), &client));
  Opening opening = run(loop, greet(accepted(), {}, {}, {"logins"})).value();
  BOOST_TEST(opening.conversation == "logins");
  Stream server = take_stream(std::move(opening));
  server.write("VERSION\t1\t1\n");
  while (!client) loop.run_once(milliseconds(10));
  BOOST_TEST(run(loop, (*client)->read_line(100)).value() == "VERSION\t1\t1");
  (*client)->write("CPID\t17\n");
  BOOST_TEST(run(loop, server.read_line(100)).value() == "CPID\t17");
}

BOOST_AUTO_TEST_CASE(only_permitted_peers_get_in) {
  Stream client = raw_client();
  const Stream server = accepted();
  BOOST_TEST(check_peer(server.fd(), {}).has_value());
  BOOST_TEST(check_peer(server.fd(), {.everyone = true}).has_value());
  if (::geteuid() == 0) {
    // Seen from a process of another uid, this root peer is allowed too; a stranger is not.
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    const Fd a(fds[0]), b(fds[1]);
    BOOST_REQUIRE(::seteuid(12345) == 0);
    const bool root_allowed = check_peer(a.get(), {}).has_value();
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    BOOST_REQUIRE(::seteuid(0) == 0);
    const Fd c(fds[0]), d(fds[1]);
    BOOST_TEST(root_allowed);
    BOOST_TEST(check_peer(c.get(), {}).error().is(IpcError::peer_not_allowed));
    BOOST_TEST(check_peer(c.get(), {.mail_owner = 12345}).has_value());
    BOOST_TEST(check_peer(c.get(), {.everyone = true}).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
