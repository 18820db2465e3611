#include "lib/receive/intake/enqueue_client.h"

#include <sys/mman.h>

#include <unistd.h>

#include "lib/base/async/testing/run.h"
#include "lib/receive/intake/body.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::intake {
BOOST_AUTO_TEST_SUITE(enqueue_client)

namespace {

using namespace ipc::enqueue;
using async::testing::run;
using async::testing::store_result;
using Server = ipc::Channel<ToQmgr, FromQmgr>;

/// A qmgr that the test plays by hand.
struct Fixture {
  async::Loop loop;
  pen::testing::ScratchDir dir;
  std::string path = dir.file("qmgr");
  std::unique_ptr<async::Listener> listener = listen();
  async::Listener::Slot slot;
  std::unique_ptr<EnqueueClient> client = std::make_unique<EnqueueClient>(loop, path);
  std::unique_ptr<Server> server;

  Fixture() { client->start(); }
  std::unique_ptr<async::Listener> listen() {
    return std::make_unique<async::Listener>(loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10);
  }
  /// revision: the queue manager's.
  void accept(std::uint32_t revision = ipc::kRevision) {
    auto accepted = run(loop, listener->accept()).value();
    slot = std::move(accepted.slot);
    auto opening = run(loop, ipc::greet(std::move(accepted.stream), {})).value();
    ipc::Hello hello = ipc::own_hello(opening.conversation);
    hello.revision = revision;
    BOOST_TEST_REQUIRE(ipc::encode_frame<ipc::HelloMessage>(opening.stream.compose(), hello, 0, ipc::kMaxHello));
    server = std::make_unique<Server>(std::move(opening.stream), hello.conversation, opening.peer);
    for (int i = 0; i < 1000 && !client->connected(); ++i) loop.run_once(milliseconds(5));
    BOOST_TEST_REQUIRE(client->connected());
  }
  void die() {
    server.reset();
    slot = {};
    for (int i = 0; i < 1000 && client->connected(); ++i) loop.run_once(milliseconds(5));
    BOOST_TEST_REQUIRE(!client->connected());
  }
  template <class M>
  M receive() {
    auto r = run(loop, server->receive());
    BOOST_TEST_REQUIRE(r.has_value());
    BOOST_TEST_REQUIRE(std::holds_alternative<M>(r->message));
    return std::get<M>(std::move(r->message));
  }
  template <class M>
  void send(const M& message, std::span<Fd> fds = {}) {
    BOOST_TEST_REQUIRE(server->send(message, fds).has_value());
  }
  template <class T>
  T wait(std::optional<T>& out) {
    for (int i = 0; i < 1000 && !out; ++i) loop.run_once(milliseconds(5));
    BOOST_TEST_REQUIRE(out.has_value());
    return std::move(*out);
  }
  async::Until soon() { return {.deadline = loop.now() + seconds(30)}; }
};

mail::Envelope envelope_of(std::string id) {
  mail::Envelope e;
  e.queue_id = std::move(id);
  return e;
}

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(many_messages_under_way_get_their_own_answers) {
  accept();
  auto a = envelope_of("A"), b = envelope_of("B");
  std::optional<EnqueueAnswer> first, second;
  loop.spawn("a", store_result(client->enqueue(a, nullptr, "body a", 0, soon()), &first));
  loop.spawn("b", store_result(client->enqueue(b, nullptr, "body b", 0, soon()), &second));
  const auto one = receive<Enqueue>().request;
  const auto two = receive<Enqueue>();
  BOOST_TEST(two.envelope.queue_id == "B");
  BOOST_TEST(two.inline_body == "body b");
  send(ipc::enqueue::Enqueued{two.request, Outcome::no_space, "full"});
  BOOST_TEST((wait(second).outcome == Enqueued::no_space));
  BOOST_TEST(!first.has_value());
  send(ipc::enqueue::Enqueued{one, Outcome::ok, {}});
  BOOST_TEST((wait(first).outcome == Enqueued::ok));
  BOOST_TEST(a.queue_id == "A");
}

BOOST_AUTO_TEST_CASE(after_a_death_of_qmgr_an_inline_message_is_sent_again) {
  accept();
  auto a = envelope_of("A");
  std::optional<EnqueueAnswer> answer;
  loop.spawn("a", store_result(client->enqueue(a, nullptr, "body", 0, soon()), &answer));
  BOOST_TEST(receive<Enqueue>().envelope.queue_id == "A");
  die();
  BOOST_TEST(!answer.has_value());
  accept();
  const auto again = receive<Enqueue>();
  BOOST_TEST(again.envelope.queue_id == "A");
  BOOST_TEST(again.inline_body == "body");
  send(ipc::enqueue::Enqueued{again.request, Outcome::ok, {}});
  BOOST_TEST((wait(answer).outcome == Enqueued::ok));
}

BOOST_AUTO_TEST_CASE(mail_for_later_waits_for_a_queue_manager_that_knows_how_to_wait) {
  accept(kReleaseRevision - 1);
  auto later = envelope_of("L"), now = envelope_of("N");
  later.release = WallTime(seconds(2'000'000'000));
  std::optional<EnqueueAnswer> answer;
  loop.spawn("later", store_result(client->enqueue(later, nullptr, "body", 0, soon()), &answer));
  std::optional<EnqueueAnswer> other;
  loop.spawn("now", store_result(client->enqueue(now, nullptr, "body", 0, soon()), &other));
  const auto first = receive<Enqueue>();
  BOOST_TEST(first.envelope.queue_id == "N");
  send(ipc::enqueue::Enqueued{first.request, Outcome::ok, {}});
  BOOST_TEST((wait(other).outcome == Enqueued::ok));
  die();
  BOOST_TEST(!answer.has_value());
  accept();
  const auto again = receive<Enqueue>();
  BOOST_TEST(again.envelope.queue_id == "L");
  BOOST_TEST((again.envelope.release == later.release));
  send(ipc::enqueue::Enqueued{again.request, Outcome::ok, {}});
  BOOST_TEST((wait(answer).outcome == Enqueued::ok));
}

BOOST_AUTO_TEST_CASE(a_leased_body_dies_with_its_connection) {
  accept();
  std::optional<LeaseAnswer> leased;
  loop.spawn("l", store_result(client->lease(5, soon()), &leased));
  const auto ask = receive<LeaseSpool>();
  Fd fds[] = {Fd(::memfd_create("spool", 0))};
  send(SpoolLeased{ask.request, Outcome::ok, 77, 4096}, fds);
  auto lease = wait(leased);
  BOOST_TEST_REQUIRE((lease.outcome == Enqueued::ok));
  BOOST_TEST(lease.lease->content_offset() == 4096u);
  BOOST_TEST(lease.lease->valid());
  auto a = envelope_of("A");
  std::optional<EnqueueAnswer> answer;
  loop.spawn("a", store_result(client->enqueue(a, lease.lease.get(), {}, 0, soon()), &answer));
  BOOST_TEST(receive<Enqueue>().lease == 77u);
  die();
  BOOST_TEST((wait(answer).outcome == Enqueued::unavailable));
  BOOST_TEST(!lease.lease->valid());
}

BOOST_AUTO_TEST_CASE(an_answer_that_comes_with_the_end_of_the_connection_counts) {
  accept();
  std::optional<LeaseAnswer> leased;
  loop.spawn("l", store_result(client->lease(5, soon()), &leased));
  Fd fds[] = {Fd(::memfd_create("spool", 0))};
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::ok, 82, 0}, fds);
  auto lease = wait(leased);
  auto a = envelope_of("A");
  std::optional<EnqueueAnswer> answer;
  loop.spawn("a", store_result(client->enqueue(a, lease.lease.get(), {}, 0, soon()), &answer));
  send(ipc::enqueue::Enqueued{receive<Enqueue>().request, Outcome::ok, {}});
  BOOST_TEST_REQUIRE(run(loop, server->flush()).has_value());
  die();
  BOOST_TEST((wait(answer).outcome == Enqueued::ok));
}

BOOST_AUTO_TEST_CASE(a_lease_goes_back_when_its_message_was_not_taken) {
  accept();
  std::optional<LeaseAnswer> leased;
  loop.spawn("l", store_result(client->lease(5, soon()), &leased));
  Fd fds[] = {Fd(::memfd_create("spool", 0))};
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::ok, 79, 0}, fds);
  auto lease = wait(leased);
  auto a = envelope_of("A");
  std::optional<EnqueueAnswer> answer;
  loop.spawn("a", store_result(client->enqueue(a, lease.lease.get(), {}, 0, soon()), &answer));
  send(ipc::enqueue::Enqueued{receive<Enqueue>().request, Outcome::no_space, "full"});
  BOOST_TEST((wait(answer).outcome == Enqueued::no_space));
  lease.lease.reset();
  BOOST_TEST(receive<ReturnLease>().lease == 79u);
}

BOOST_AUTO_TEST_CASE(a_body_stops_writing_into_a_lease_that_died) {
  accept();
  async::HandlerPool pool(loop, 1);
  BodyMemory memory;
  Body body(pool, *client, memory, {});
  body.content().text("Subject: x");
  body.content().line_end();
  bool drained = false;
  loop.spawn("d", async::testing::store_done(body.drain(soon()), &drained));
  const int file = ::memfd_create("spool", 0);
  Fd fds[] = {Fd(::dup(file))};
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::ok, 80, 0}, fds);
  for (int i = 0; i < 1000 && !drained; ++i) loop.run_once(milliseconds(5));
  BOOST_TEST_REQUIRE(drained);
  const auto before = ::lseek(file, 0, SEEK_END);
  BOOST_TEST(before > 0);
  die();
  body.content().text("more");
  body.content().line_end();
  run(loop, body.finish(soon()));
  BOOST_TEST((body.problem() == Body::Problem::unavailable));
  BOOST_TEST(::lseek(file, 0, SEEK_END) == before);
  ::close(file);
}

BOOST_AUTO_TEST_CASE(an_unused_lease_goes_back) {
  accept();
  std::optional<LeaseAnswer> leased;
  loop.spawn("l", store_result(client->lease(5, soon()), &leased));
  Fd fds[] = {Fd(::memfd_create("spool", 0))};
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::ok, 78, 0}, fds);
  wait(leased).lease.reset();
  BOOST_TEST(receive<ReturnLease>().lease == 78u);
}

BOOST_AUTO_TEST_CASE(the_queue_state_is_known_and_try_later_is_tried_later) {
  accept();
  send(QueueState{false, 9999});
  for (int i = 0; i < 1000 && client->accepting(); ++i) loop.run_once(milliseconds(5));
  BOOST_TEST(!client->accepting());
  BOOST_TEST(client->inline_limit() == 9999u);
  auto a = envelope_of("A");
  std::optional<EnqueueAnswer> answer;
  loop.spawn("a", store_result(client->enqueue(a, nullptr, "x", 0, soon()), &answer));
  send(ipc::enqueue::Enqueued{receive<Enqueue>().request, Outcome::try_later, "starting"});
  send(ipc::enqueue::Enqueued{receive<Enqueue>().request, Outcome::ok, {}});
  BOOST_TEST((wait(answer).outcome == Enqueued::ok));
}

BOOST_AUTO_TEST_CASE(a_lease_is_asked_for_until_a_qmgr_gives_one) {
  accept();
  std::optional<LeaseAnswer> leased;
  loop.spawn("l", store_result(client->lease(5, soon()), &leased));
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::try_later, 0, 0});
  receive<LeaseSpool>();
  die();
  BOOST_TEST(!leased.has_value());
  accept();
  Fd fds[] = {Fd(::memfd_create("spool", 0))};
  send(SpoolLeased{receive<LeaseSpool>().request, Outcome::ok, 81, 0}, fds);
  BOOST_TEST((wait(leased).outcome == Enqueued::ok));
}

BOOST_AUTO_TEST_CASE(without_a_qmgr_the_answer_comes_by_the_deadline) {
  listener.reset();
  ::unlink(path.c_str());
  auto a = envelope_of("A");
  const auto answer = run(loop, client->enqueue(a, nullptr, "x", 0, {.deadline = loop.now() + milliseconds(50)}));
  BOOST_TEST((answer.outcome == Enqueued::unavailable));
  BOOST_TEST(!answer.text.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::intake
