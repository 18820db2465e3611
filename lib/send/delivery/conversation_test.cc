/// The program's half of the conversation with qmgr: what reaches the program, drains, and ends.
#include "lib/send/delivery/conversation.h"

#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/sync.h"

namespace pen::delivery {
namespace {

namespace messages = ipc::delivery;
using QmgrSide = ipc::Channel<messages::FromProgram, messages::ToProgram>;

/// A program that answers nothing by itself.
struct Deliveries {
  explicit Deliveries(Conversation& q) : qmgr(q) {}
  Result<void> open(const messages::OpenConnection& o) {
    if (o.connection == 0) return out_of_place("no number");
    opened.push_back(o.connection);
    return {};
  }
  Result<void> close(const messages::CloseConnection&) { return {}; }
  Result<void> take(messages::Job job, std::span<Fd> fds) {
    auto content = take_content(job, fds);
    if (!content) return fail(std::move(content).error());
    contents.push_back(std::string(content->memory()));
    ++in_hand;
    return {};
  }
  void finish(std::uint64_t job) {
    messages::JobResult result;
    result.job = job;
    qmgr.send(result);
    if (--in_hand == 0) qmgr.idle();
  }
  void drain() { ++drains; }
  bool idle() const {
    ++looks;
    return in_hand == 0;
  }

  Conversation& qmgr;
  std::vector<std::uint64_t> opened;
  std::vector<std::string> contents;
  int drains = 0, in_hand = 0;
  mutable int looks = 0;  // whether it is idle
};

struct Pair {
  Pair() : gate(loop) {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    program.emplace(Channel(async::Stream(loop, Fd(ends[0])), messages::kName, {}));
    qmgr.emplace(QmgrSide(async::Stream(loop, Fd(ends[1])), messages::kName, {}));
    deliveries.emplace(*program);
    gate.spawn("program", converse_and_tell(this));
  }
  static async::Task<void> converse_and_tell(Pair* self) {
    self->end = co_await converse(*self->program, *self->deliveries, self->draining);
    self->program->close();
  }
  messages::Job job(std::string_view content) {
    messages::Job j;
    j.job = 1;
    j.body.size = content.size();
    j.inline_body = content;
    return j;
  }
  void until(const std::function<bool()>& done) {
    for (int i = 0; i < 500 && !done(); ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(done());
  }
  void turns() {
    for (int i = 0; i < 20; ++i) loop.run_once(milliseconds(1));
  }
  async::Task<void> hear() {
    for (;;) {
      const auto m = co_await qmgr->receive({.cancel = &gate.cancel()});
      if (!m) co_return;
      if (const auto* r = std::get_if<messages::JobResult>(&m->message)) heard.push_back(r->job);
      const auto* closed = std::get_if<messages::ConnectionClosed>(&m->message);
      leaves = closed != nullptr && closed->connection == messages::kNoConnection;
    }
  }

  async::Loop loop;
  async::Cancel draining;
  std::optional<Conversation> program;
  std::optional<QmgrSide> qmgr;
  std::optional<Deliveries> deliveries;
  std::optional<Result<void>> end;
  std::vector<std::uint64_t> heard;
  bool leaves = false;  // that was its last word
  async::Gate gate;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(delivery_conversation, Pair)

BOOST_AUTO_TEST_CASE(what_qmgr_sends_reaches_the_program_in_order) {
  messages::OpenConnection open;
  open.connection = 7;
  (void)qmgr->send(open);
  (void)qmgr->send(job("content"));
  until([&] { return deliveries->contents.size() == 1; });
  BOOST_TEST(deliveries->opened == std::vector<std::uint64_t>{7}, boost::test_tools::per_element());
  BOOST_TEST(deliveries->contents[0] == "content");
  qmgr->close();
  until([&] { return end.has_value(); });
  BOOST_TEST(end->error().is(async::WaitError::closed));
}

BOOST_AUTO_TEST_CASE(a_drain_waits_for_what_is_in_hand_and_hands_its_answers_over) {
  (void)qmgr->send(job("x"));
  until([&] { return deliveries->in_hand == 1; });
  program->idle();  // an old word, by which the drain must not be kept awake
  draining.raise();
  turns();
  BOOST_TEST(deliveries->drains == 1);
  BOOST_TEST(deliveries->looks == 1);
  BOOST_TEST(!end.has_value());
  gate.spawn("hear", hear());
  deliveries->finish(1);
  until([&] { return end.has_value() && !heard.empty(); });
  BOOST_TEST(end->has_value());
  BOOST_TEST(deliveries->drains == 1);
}

BOOST_AUTO_TEST_CASE(a_drain_that_begins_within_a_frame_leaves_what_is_in_hand_to_its_end) {
  (void)qmgr->send(job("x"));
  until([&] { return deliveries->in_hand == 1; });
  std::string frame;
  BOOST_TEST(ipc::encode_frame<messages::ToProgram>(frame, job(std::string(5000, 'y')), 0, 10000));
  qmgr->stream().write(std::string_view(frame).substr(0, 3000));
  turns();
  draining.raise();
  turns();
  BOOST_TEST(!end.has_value());
  // What crossed the drain is taken: the connection that it is for may still be open.
  qmgr->stream().write(std::string_view(frame).substr(3000));
  until([&] { return deliveries->in_hand == 2; });
  gate.spawn("hear", hear());
  deliveries->finish(1);
  deliveries->finish(2);
  until([&] { return end.has_value() && leaves; });
  BOOST_TEST(end->has_value());
  BOOST_TEST(heard == (std::vector<std::uint64_t>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_drain_begins_though_messages_keep_coming) {
  for (int i = 0; i < 5; ++i) (void)qmgr->send(job("x"));
  draining.raise();
  until([&] { return deliveries->in_hand == 5 || end.has_value(); });
  BOOST_TEST(deliveries->drains == 1);
  BOOST_TEST(deliveries->in_hand == 0);
}

BOOST_AUTO_TEST_CASE(a_drain_ends_at_once_when_nothing_is_in_hand) {
  draining.raise();
  until([&] { return end.has_value(); });
  BOOST_TEST(end->has_value());
}

BOOST_AUTO_TEST_CASE(what_the_program_refuses_ends_the_conversation) {
  (void)qmgr->send(messages::OpenConnection{});
  until([&] { return end.has_value(); });
  BOOST_REQUIRE(!end->has_value());
  BOOST_TEST(end->error().is_errno(EBADMSG));
}

BOOST_AUTO_TEST_CASE(a_second_stage_page_ends_the_conversation) {
  for (int i = 0; i < 2; ++i) {
    Fd page[1];
    page[0] = std::move(*ipc::make_stage_page(16));
    (void)qmgr->send(messages::StagePage{16}, page);
  }
  until([&] { return end.has_value(); });
  BOOST_REQUIRE(!end->has_value());
  BOOST_TEST(program->stages().mapped());
  BOOST_TEST(end->error().is_errno(EBADMSG));
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_too_large_ends_the_conversation_and_is_the_reason) {
  turns();
  messages::JobResult result;
  result.results.emplace_back().status.text.assign(ipc::max_frame(messages::kName) + 1, 'x');
  program->send(result);
  until([&] { return end.has_value(); });
  BOOST_REQUIRE(!end->has_value());
  BOOST_TEST(end->error().is(ipc::IpcError::frame_too_large));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::delivery
