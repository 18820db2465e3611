#include "lib/send/delivery/slots.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <map>

#include "lib/queue/spool/breakage.h"
#include "lib/queue/spool/spool.h"
#include "lib/suite/ipc/stage_page.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::delivery;
using QmgrSide = ipc::Channel<ipc::delivery::FromProgram, ipc::delivery::ToProgram>;

BOOST_AUTO_TEST_SUITE(mailbox_slots)

namespace {
/// A queue manager and an agent in one loop.
struct Pair {
  Pair() : pool(loop, 2), gate(loop) {
    environment = std::make_shared<SlotEnvironment>(
        SlotEnvironment{.loop = loop,
                        .pool = pool,
                        .draining = draining,
                        .limit = 2,
                        .events = {.answered = [this](const auto&, const mail::Recipient& to, const auto&,
                                                      const auto&) { answered.push_back(to.address); },
                                   .warning = [this](const auto& id, const auto&) { warned.push_back(id); }},
                        .deliver = [this](auto m, auto r) { return answer(std::move(m), std::move(r)); }});
  }
  async::Task<mail::DeliveryStatus> answer(std::shared_ptr<const Incoming> m, mail::Recipient r) {
    ++delivered[r.address];
    contents.push_back(std::string(m->body.memory()));
    messages.push_back(m);
    headers.push_back(m->header);
    soft_refusals.push_back(m->soft_refusals);
    if (auto hold = holds.find(r.address); hold != holds.end()) (void)co_await hold->second->wait();
    mail::DeliveryStatus s;
    s.action = mail::Action::delivered;
    s.dsn = "2.0.0";
    s.text = "delivered to test";
    co_return s;
  }
  static ipc::delivery::Job job(std::uint64_t id, std::uint64_t connection, std::vector<std::string> to) {
    ipc::delivery::Job j;
    j.job = id;
    j.connection = connection;
    j.slot = static_cast<std::uint32_t>(id);
    j.queue_id = "4TEST";
    std::uint32_t n = 0;
    for (auto& address : to) {
      ipc::delivery::JobRecipient r;
      r.ordinal = n++;
      r.recipient.address = std::move(address);
      j.recipients.push_back(std::move(r));
    }
    return j;
  }
  void run(async::Task<void> (*test)(Pair&, QmgrSide)) {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    ipc::Opening opening{async::Stream(loop, Fd(fds[0])), "delivery", {}};
    gate.spawn("agent", serve(this, Channel(std::move(opening))));
    gate.spawn("qmgr", play(this, QmgrSide(async::Stream(loop, Fd(fds[1])), "delivery", {}), test));
    loop.run();
    BOOST_TEST(played);
    BOOST_TEST(served);
  }
  static async::Task<void> serve(Pair* self, Channel channel) {
    self->end = co_await serve_slots(self->environment, std::move(channel));
    self->served = true;
  }
  static async::Task<void> play(Pair* self, QmgrSide side, async::Task<void> (*test)(Pair&, QmgrSide)) {
    // The agent's answer to the hello.
    auto size = co_await side.stream().read_exact(4);
    BOOST_REQUIRE(size);
    const auto n = static_cast<unsigned char>((*size)[0]);
    BOOST_REQUIRE(co_await side.stream().read_exact(n));
    co_await test(*self, std::move(side));
    self->played = true;
  }
  async::Loop loop;
  async::HandlerPool pool;
  async::Gate gate;
  async::Cancel draining;
  std::shared_ptr<SlotEnvironment> environment;
  std::map<std::string, int> delivered;
  std::map<std::string, std::shared_ptr<async::Event>> holds;
  std::vector<std::string> contents, headers;
  std::vector<std::shared_ptr<const Incoming>> messages;
  std::vector<bool> soft_refusals;
  std::vector<std::string> answered, warned;  // what the program hears
  Result<void> end;
  bool played = false, served = false;
  bool drain_first = false;
  std::string owner = "4TEST";  // of the spool file
};

async::Task<void> simple(Pair& p, QmgrSide side) {
  auto page = ipc::make_stage_page(16);
  BOOST_REQUIRE(page.has_value());
  ipc::StagePage stages;
  BOOST_REQUIRE(stages.map(page->get(), 16).has_value());
  Fd sent[1];
  sent[0] = *std::move(page);
  (void)side.send(ipc::delivery::StagePage{16}, sent);
  ipc::delivery::OpenConnection open;
  open.connection = 7;
  (void)side.send(open);
  auto opened = co_await side.receive();
  BOOST_REQUIRE(opened);
  BOOST_TEST(std::get<ipc::delivery::ConnectionOpened>(opened->message).features.window == 1U);
  auto job = Pair::job(3, 7, {"a@x", "b@x"});
  const std::string content = "Subject: x\r\n\r\nbody\r\n";
  job.body.size = content.size();
  job.body.header_size = 14;
  job.inline_body = content;
  job.soft_refusals = true;
  (void)side.send(job);
  auto result = co_await side.receive();
  BOOST_REQUIRE(result);
  const auto& r = std::get<ipc::delivery::JobResult>(result->message);
  BOOST_TEST(r.job == 3U);
  BOOST_REQUIRE_EQUAL(r.results.size(), 2U);
  BOOST_TEST(r.results[1].ordinals.at(0) == 1U);
  BOOST_TEST(r.results[1].status.text == "delivered to test");
  BOOST_TEST(p.contents.at(0) == content);
  BOOST_TEST(p.headers.at(0) == "Subject: x\r\n\r\n");
  BOOST_TEST(p.soft_refusals.at(0));
  BOOST_TEST((stages.at(3) == ipc::delivery::Stage::committed));
  BOOST_TEST(p.answered == (std::vector<std::string>{"a@x", "b@x"}), boost::test_tools::per_element());
  ipc::delivery::CloseConnection close;
  close.connection = 7;
  (void)side.send(close);
  auto closed = co_await side.receive();
  BOOST_REQUIRE(closed);
  BOOST_TEST(std::get<ipc::delivery::ConnectionClosed>(closed->message).opened);
}

/// The text that the result of one recipient has.
async::Task<void> filtered(Pair& p, QmgrSide side) {
  ipc::delivery::OpenConnection open;
  open.connection = 7;
  (void)side.send(open);
  BOOST_REQUIRE(co_await side.receive());
  (void)side.send(Pair::job(3, 7, {"a@x"}));
  auto result = co_await side.receive();
  BOOST_REQUIRE(result);
  const auto& r = std::get<ipc::delivery::JobResult>(result->message);
  BOOST_REQUIRE_EQUAL(r.results.size(), 1U);
  BOOST_TEST(r.results[0].status.dsn == "2.1.5");
  BOOST_TEST(r.results[0].status.text == "done");
  BOOST_TEST((r.results[0].status.action == mail::Action::delivered));
  p.draining.raise();
}

async::Task<void> too_many(Pair&, QmgrSide side) {
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ipc::delivery::OpenConnection open;
    open.connection = id;
    (void)side.send(open);
  }
  (void)co_await side.receive();
  (void)co_await side.receive();
  auto third = co_await side.receive();
  BOOST_REQUIRE(third);
  const auto& refused = std::get<ipc::delivery::ConnectionClosed>(third->message);
  BOOST_TEST(refused.connection == 3U);
  BOOST_TEST(!refused.opened);
}

async::Task<void> wrong_size(Pair& p, QmgrSide side) {
  ipc::delivery::OpenConnection open;
  open.connection = 1;
  (void)side.send(open);
  (void)co_await side.receive();
  auto job = Pair::job(1, 1, {"a@x"});
  job.body.size = 500;
  job.inline_body = "short\r\n";
  (void)side.send(job);
  auto result = co_await side.receive();
  BOOST_REQUIRE(result);
  const auto& r = std::get<ipc::delivery::JobResult>(result->message);
  BOOST_TEST((r.results.at(0).status.action == mail::Action::deferred));
  BOOST_TEST(p.delivered.empty());
}

async::Task<void> unknown_connection(Pair& p, QmgrSide side) {
  (void)side.send(Pair::job(1, 99, {"a@x"}));
  BOOST_TEST(!(co_await side.receive()));
  BOOST_TEST(p.delivered.empty());
}

async::Task<void> drained(Pair& p, QmgrSide side) {
  p.holds["slow@x"] = std::make_shared<async::Event>(p.loop);
  ipc::delivery::OpenConnection open;
  open.connection = 1;
  (void)side.send(open);
  (void)co_await side.receive();
  (void)side.send(Pair::job(1, 1, {"slow@x"}));
  (void)side.send(Pair::job(2, 1, {"never@x"}));
  while (p.delivered.empty()) co_await p.loop.yield();
  p.draining.raise();
  co_await p.loop.yield();
  p.holds["slow@x"]->set();
  auto result = co_await side.receive();
  BOOST_REQUIRE(result);
  BOOST_TEST(std::get<ipc::delivery::JobResult>(result->message).job == 1U);
  const auto last = co_await side.receive();
  BOOST_REQUIRE(last);
  BOOST_TEST(std::get<ipc::delivery::ConnectionClosed>(last->message).connection == ipc::delivery::kNoConnection);
  BOOST_TEST(!(co_await side.receive()));
  BOOST_TEST(!p.delivered.contains("never@x"));
}

/// One job in hand; its connection ends.
async::Task<void> ended(Pair& p, QmgrSide side) {
  const auto held = p.holds["slow@x"] = std::make_shared<async::Event>(p.loop);
  ipc::delivery::OpenConnection open;
  open.connection = 1;
  (void)side.send(open);
  (void)co_await side.receive();
  (void)side.send(Pair::job(1, 1, {"slow@x", "next@x"}));
  while (p.delivered.empty()) co_await p.loop.yield();
  BOOST_TEST(!p.messages.at(0)->over());
  if (p.drain_first) {
    p.draining.raise();
    co_await p.loop.yield();
    BOOST_TEST(!p.messages.at(0)->over());
  }
  side.close();
  while (!p.messages.at(0)->over()) co_await p.loop.yield();
  held->set();
  while (p.environment->busy > 0) co_await p.loop.yield();
  BOOST_TEST(p.environment->done == 0U);
  BOOST_TEST(!p.delivered.contains("next@x"));
  BOOST_TEST(p.answered.empty());
  BOOST_TEST(p.warned == std::vector<std::string>{"4TEST"}, boost::test_tools::per_element());
}

/// A job with its content in a spool file.
async::Task<void> used_again(Pair& p, QmgrSide side) {
  const BreakageScope broken(spool::Breakage::leased_while_open);
  const testing::ScratchDir scratch;
  auto spool = spool::Spool::open(scratch.file("bodies"));
  BOOST_REQUIRE(spool);
  auto lease = (*spool)->lease(5000);
  BOOST_REQUIRE(lease);
  const std::string mine(5000, 'm');
  BOOST_REQUIRE(::pwrite(lease->fd.get(), mine.data(), mine.size(), spool::kContentOffset) == 5000);
  auto ref = (*spool)->take(lease->lease, p.owner, mine.size());
  BOOST_REQUIRE(ref);
  lease->fd.reset();
  p.holds["a@x"] = std::make_shared<async::Event>(p.loop);
  ipc::delivery::OpenConnection open;
  open.connection = 1;
  (void)side.send(open);
  (void)co_await side.receive();
  auto job = Pair::job(1, 1, {"a@x"});
  job.body.size = mine.size();
  job.body_offset = spool::kContentOffset;
  auto fd = (*spool)->open_to_read(*ref);
  BOOST_REQUIRE(fd);
  Fd sent[1];
  sent[0] = *std::move(fd);
  (void)side.send(job, sent);
  if (p.owner == "4TEST") {
    while (p.delivered.empty()) co_await p.loop.yield();
    std::string text(10, '\0');
    BOOST_TEST(p.messages.at(0)->body.read(0, text).has_value());
    BOOST_TEST(text == "mmmmmmmmmm");
    // The file's next use, as a queue manager gives it out that does not know of this reader.
    spool->reset();
    const auto opened = spool::Spool::open(scratch.file("bodies"));
    BOOST_REQUIRE(opened);
    (*opened)->sweep();
    auto next = (*opened)->lease(5000);
    BOOST_REQUIRE(next);
    const auto read = p.messages.at(0)->body.read(0, text);
    BOOST_TEST(!read.has_value());
    p.holds["a@x"]->set();
  }
  auto result = co_await side.receive();
  BOOST_REQUIRE(result);
  if (p.owner == "4TEST") co_return;
  const auto& r = std::get<ipc::delivery::JobResult>(result->message);
  BOOST_TEST((r.results.at(0).status.action == mail::Action::deferred));
  BOOST_TEST(p.delivered.empty());
}
}  // namespace

PEN_FIXTURE(Pair)

BOOST_AUTO_TEST_CASE(a_job_is_delivered_recipient_by_recipient_and_marked_committed) { run(simple); }
BOOST_AUTO_TEST_CASE(connections_beyond_the_limit_are_refused) { run(too_many); }
BOOST_AUTO_TEST_CASE(a_body_of_another_size_than_announced_is_deferred) { run(wrong_size); }
BOOST_AUTO_TEST_CASE(a_job_for_no_connection_ends_the_conversation) {
  run(unknown_connection);
  BOOST_REQUIRE(!end);
  BOOST_TEST(end.error().is_errno(EBADMSG));
}
BOOST_AUTO_TEST_CASE(a_drain_finishes_what_is_in_hand_and_begins_nothing) { run(drained); }

BOOST_AUTO_TEST_CASE(what_is_in_hand_when_the_conversation_ends_is_called_off) { run(ended); }
BOOST_AUTO_TEST_CASE(the_conversation_may_end_during_a_drain) {
  drain_first = true;
  run(ended);
}
BOOST_AUTO_TEST_CASE(a_spool_file_that_is_used_again_is_not_read_on) { run(used_again); }
BOOST_AUTO_TEST_CASE(a_spool_file_of_another_message_is_not_read) {
  owner = "4OTHER";
  run(used_again);
}

BOOST_AUTO_TEST_CASE(a_filter_says_what_is_told_of_a_delivery) {
  auto filter = map::StatusFilter::open({"inline:{ { 2.0.0 delivered to test = 2.1.5 done } }"}, {});
  BOOST_REQUIRE(filter);
  environment->filter = std::make_shared<const map::StatusFilter>(*std::move(filter));
  run(filtered);
}

BOOST_AUTO_TEST_SUITE_END()
