#include "bounce/reporter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <iterator>

#include "lib/base/log.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::bounce;

namespace {
/// Keeps the enqueued messages; leased files are memfds.
class MemoryQueue final : public intake::Queue {
 public:
  struct Stored {
    mail::Envelope envelope;
    std::string content;
    bool was_inline = true;
    std::uint64_t permit = 0;
  };
  struct MemoryLease final : intake::Lease {
    Fd file{::memfd_create("lease", MFD_CLOEXEC)};
    int fd() const override { return file.get(); }
    std::uint64_t content_offset() const override { return 128; }
    bool valid() const override { return true; }
  };
  bool accepting() const override { return true; }
  std::uint64_t inline_limit() const override { return 16384; }
  async::Task<intake::LeaseAnswer> lease(std::uint64_t, async::Until) override {
    co_return intake::LeaseAnswer{intake::Enqueued::ok, std::make_unique<MemoryLease>()};
  }
  async::Task<intake::EnqueueAnswer> enqueue(mail::Envelope& envelope, intake::Lease* lease, std::string_view body,
                                             std::uint64_t permit, async::Until, std::string_view) override {
    const bool refused = !refused_to.empty() && envelope.recipients.at(0).address == refused_to;
    if (outcome == intake::Enqueued::ok && !refused) {
      Stored s{envelope, std::string(body), lease == nullptr, permit};
      if (lease != nullptr) {
        s.content.resize(envelope.body.size);
        const auto n = ::pread(lease->fd(), s.content.data(), s.content.size(), 128);
        s.content.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
      }
      stored.push_back(std::move(s));
    }
    co_return intake::EnqueueAnswer{refused ? intake::Enqueued::unavailable : outcome, {}};
  }
  intake::Enqueued outcome = intake::Enqueued::ok;
  std::string refused_to;  // mail to this address is refused
  std::vector<Stored> stored;
};

std::shared_ptr<const resolve::Resolve> resolver() {
  resolve::Options options;
  options.myorigin = options.myhostname = "mx.example.org";
  options.canonical_maps = "inline:{@mx.example.org=@example.org}";
  auto made = resolve::Resolve::open(std::move(options));
  BOOST_REQUIRE(made);
  return *std::move(made);
}
intake::Settings intake_settings() {
  intake::Settings s;
  s.myhostname = "mx.example.org";
  s.message_size_limit = 0;
  return s;
}

struct World {
  World()
      : pool(loop, 1),
        intake{.loop = loop,
               .pool = pool,
               .queue = queue,
               .resolve = resolver(),
               .settings = intake_settings(),
               .next_queue_id = [this] { return "NEW" + std::to_string(++ids); },
               .expansion_waits = false},
        random(1) {
    request = std::make_shared<Request>();
    auto& n = request->notify;
    n.request = 5;
    n.envelope.queue_id = "OLD1";
    n.permit = 77;
    n.envelope.sender = "alice@example.org";
    request->content = ipc::Content::in_memory("Subject: x\r\n\r\n.dot\r\nbody\r\n");
    n.envelope.body.size = request->content.size();
    n.envelope.body.header_size = 14;
    ipc::bounce::Reported r;
    r.ordinal = 3;
    r.recipient.address = "bob@example.net";
    r.status = {mail::Action::failed, "5.1.1", "unknown user", "", ""};
    n.recipients.push_back(r);
  }
  ipc::bounce::Notified run() {
    restart();
    return run_again();
  }
  void restart() {
    reporter =
        std::make_unique<Reporter>(intake, mail::DsnSettings{.hostname = "mx.example.org", .origin = "example.org"},
                                   "double-bounce@mx.example.org", copies, own, random);
  }
  /// Runs the request again with the same reporter.
  ipc::bounce::Notified run_again() {
    loop.spawn("test", go(this));
    loop.run();
    return answer;
  }
  static async::Task<void> go(World* self) { self->answer = co_await self->reporter->report(self->request); }

  async::Loop loop;
  async::HandlerPool pool;
  MemoryQueue queue;
  intake::Intake intake;
  Random random;
  PostmasterCopies copies;
  intake::OwnMail own;
  std::unique_ptr<Reporter> reporter;
  std::shared_ptr<Request> request;
  ipc::bounce::Notified answer;
  int ids = 0;
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(bounce_reporter, World)

BOOST_AUTO_TEST_CASE(a_failure_is_queued_with_the_original_and_discharges_the_report) {
  const auto a = run();
  BOOST_TEST(a.request == 5U);
  BOOST_TEST(a.done);
  BOOST_TEST(a.queue_id == "NEW1");
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  const auto& stored = queue.stored[0];
  BOOST_TEST(stored.envelope.sender == "");
  BOOST_TEST(stored.envelope.recipients.at(0).address == "alice@example.org");
  BOOST_REQUIRE_EQUAL(stored.envelope.discharges.size(), 1U);
  BOOST_TEST(stored.permit == 77U);
  BOOST_TEST(stored.envelope.discharges[0].queue_id == "OLD1");
  BOOST_TEST(stored.envelope.discharges[0].ordinals.at(0) == 3U);
  BOOST_TEST(stored.content.starts_with("Received: by mx.example.org"));
  BOOST_TEST(stored.content.find("\r\n\r\nSubject: x\r\n\r\n.dot\r\nbody\r\n\r\n--") != std::string::npos);
  BOOST_TEST(stored.envelope.body.size == stored.content.size());
}

BOOST_AUTO_TEST_CASE(an_original_in_a_spool_file_is_read_from_its_offset) {
  testing::ScratchDir scratch;
  const std::string content = "Subject: big\r\n\r\n" + std::string(30000, 'x') + "\r\n";
  Fd file(::open(scratch.write("spool", "HEAD" + content + "TAIL").c_str(), O_RDONLY | O_CLOEXEC));
  request->content = ipc::Content::in_file(std::move(file), 4, content.size());
  request->notify.envelope.body.size = content.size();
  request->notify.envelope.body.header_size = 16;
  BOOST_TEST(run().done);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  BOOST_TEST((queue.stored[0].content.find(content + "\r\n--") != std::string::npos));
  BOOST_TEST(!queue.stored[0].was_inline);
}

BOOST_AUTO_TEST_CASE(nothing_is_made_for_the_null_sender_notify_never_or_double_bounces) {
  request->notify.envelope.sender = "";
  BOOST_TEST(run().done);
  request->notify.envelope.sender = "alice@example.org";
  request->notify.recipients[0].recipient.notify = mail::notify::kNever;
  BOOST_TEST(run().done);
  request->notify.recipients[0].recipient.notify = 0;
  request->notify.envelope.sender = "double-bounce@mx.example.org";
  BOOST_TEST(run().done);
  BOOST_TEST(run().queue_id == "");
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(a_queue_that_does_not_take_it_leaves_the_report_owed) {
  queue.outcome = intake::Enqueued::unavailable;
  BOOST_TEST(!run().done);
  queue.outcome = intake::Enqueued::no_space;
  const auto a = run();
  BOOST_TEST(!a.done);
  BOOST_TEST(a.text != "");
}

BOOST_AUTO_TEST_CASE(an_original_that_cannot_be_read_leaves_the_report_owed) {
  request->content = ipc::Content::in_memory("short");
  BOOST_TEST(!run().done);
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(the_postmaster_gets_a_copy_of_the_header_before_the_sender_is_told) {
  copies.failures = "postmaster@example.org";
  BOOST_TEST(run().queue_id == "NEW2");
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 2U);
  const auto& copy = queue.stored[0];
  BOOST_TEST(copy.envelope.sender == "double-bounce@mx.example.org");
  BOOST_TEST(copy.envelope.recipients.at(0).address == "postmaster@example.org");
  BOOST_TEST(copy.envelope.discharges.empty());
  BOOST_TEST(copy.permit == 0U);
  BOOST_TEST(copy.content.find("text/rfc822-headers") != std::string::npos);
  BOOST_TEST(copy.content.find(".dot") == std::string::npos);
  BOOST_TEST(queue.stored[1].envelope.recipients.at(0).address == "alice@example.org");
  BOOST_TEST(queue.stored[1].envelope.discharges.size() == 1U);
  queue.outcome = intake::Enqueued::no_space;
  BOOST_TEST(!run().done);
}

BOOST_AUTO_TEST_CASE(a_notice_that_failed_goes_whole_to_the_postmaster_who_wants_it) {
  copies.failing_notices = "postmaster@example.org";
  request->notify.envelope.sender = "";
  const auto a = run();
  BOOST_TEST(a.done);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  BOOST_TEST(queue.stored[0].envelope.sender == "double-bounce@mx.example.org");
  BOOST_TEST(queue.stored[0].envelope.recipients.at(0).address == "postmaster@example.org");
  BOOST_TEST(queue.stored[0].envelope.discharges.size() == 1U);
  BOOST_TEST(queue.stored[0].content.find(".dot") != std::string::npos);
  // The notice to the postmaster never causes another notice.
  request->notify.envelope.sender = "Double-Bounce@mx.example.org";
  BOOST_TEST(run().done);
  BOOST_TEST(queue.stored.size() == 1U);
}

BOOST_AUTO_TEST_CASE(late_mail_of_double_bounces_is_not_called_discarded) {
  testing::ScratchDir scratch;
  const std::string path = scratch.file("log");
  log::Options to_file;
  to_file.program = "bounce";
  to_file.target = log::Target::file;
  to_file.path = path;
  BOOST_REQUIRE(log::open(to_file));
  const auto discarded = [&] {
    std::ifstream in(path);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    return text.contains("OLD1: undeliverable postmaster notification discarded");
  };
  request->notify.envelope.sender = "double-bounce@mx.example.org";
  request->notify.kind = ipc::bounce::Kind::delay;
  const bool late_done = run().done, late_said = discarded();
  request->notify.kind = ipc::bounce::Kind::failure;
  const bool failed_done = run().done, failed_said = discarded();
  BOOST_REQUIRE(log::open({}));
  BOOST_TEST(late_done);
  BOOST_TEST(!late_said);
  BOOST_TEST(failed_done);
  BOOST_TEST(failed_said);
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(the_sender_of_the_postmasters_mail_stays_what_it_is_known_by) {
  for (const bool pooled : {false, true}) {
    queue.stored.clear();
    intake.expansion_waits = pooled;
    copies.failures = "postmaster@mx.example.org";
    BOOST_TEST(run().done);
    BOOST_REQUIRE_EQUAL(queue.stored.size(), 2U);
    BOOST_TEST(queue.stored[0].envelope.sender == "double-bounce@mx.example.org");
    // The maps apply to everything else.
    BOOST_TEST(queue.stored[0].envelope.recipients.at(0).address == "postmaster@example.org");
  }
}

BOOST_AUTO_TEST_CASE(what_comes_back_to_double_bounces_goes_round_no_further) {
  copies.failing_notices = "postmaster@example.org";
  auto& n = request->notify;
  n.envelope.sender = "";
  n.recipients[0].recipient.address = "Double-Bounce@mx.example.org";
  BOOST_TEST(run().done);
  n.recipients[0].recipient.address = "double-bounce@example.org";
  n.recipients[0].recipient.original = "double-bounce@mx.example.org";
  BOOST_TEST(run().done);
  BOOST_TEST(queue.stored.empty());
  n.recipients.push_back(n.recipients[0]);
  n.recipients[1].ordinal = 4;
  n.recipients[1].recipient = {"carol@example.net", "", "", 0};
  BOOST_TEST(run().done);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  BOOST_TEST(queue.stored[0].content.contains("<carol@example.net>"));
  BOOST_TEST(!queue.stored[0].content.contains("Final-Recipient: rfc822; double-bounce@"));
  // The report is settled as a whole.
  BOOST_TEST(queue.stored[0].envelope.discharges.at(0).ordinals.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_notice_that_cannot_be_queued_makes_no_copy_at_each_try) {
  copies.failures = "postmaster@example.org";
  queue.refused_to = "alice@example.org";
  BOOST_TEST(!run().done);
  BOOST_TEST(!run_again().done);
  BOOST_TEST(queue.stored.size() == 1U);
  // A copy for another recipient is new to the postmaster.
  auto& recipients = request->notify.recipients;
  recipients.push_back(recipients[0]);
  recipients[1].ordinal = 1;
  BOOST_TEST(!run_again().done);
  BOOST_TEST(!run_again().done);
  BOOST_TEST(queue.stored.size() == 2U);
  queue.refused_to = "";
  BOOST_TEST(run_again().done);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 3U);
  BOOST_TEST(queue.stored[2].envelope.recipients.at(0).address == "alice@example.org");
}

BOOST_AUTO_TEST_CASE(copies_remembered_are_bounded_and_kept_by_message_and_kind) {
  CopiesMade made(420);  // room for two messages of one recipient
  ipc::bounce::Notify a = request->notify, b = a, delay = a;
  b.envelope.queue_id = "OLD2";
  delay.kind = ipc::bounce::Kind::delay;
  made.add(a);
  const std::size_t one = made.held();
  BOOST_TEST(one > 0U);
  made.add(a);
  BOOST_TEST(made.held() == one);
  BOOST_TEST(made.has(a));
  BOOST_TEST(!made.has(b));
  BOOST_TEST(!made.has(delay));
  made.add(b);
  made.add(delay);
  BOOST_TEST(made.held() == 2 * one);
  BOOST_TEST(made.has(delay));
  made.forget(delay);
  BOOST_TEST(!made.has(delay));
  BOOST_TEST(!made.has(a));
  BOOST_TEST(made.held() == one);
  a.recipients.resize(55, a.recipients[0]);  // a report that needs all the room
  made.add(a);
  BOOST_TEST(made.has(a));
  BOOST_TEST(!made.has(b));
  BOOST_TEST(made.held() <= 420U);
}

BOOST_AUTO_TEST_SUITE_END()
