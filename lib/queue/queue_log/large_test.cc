// An envelope of 100,000 recipients: what it costs, as docs/queue-figures.md tells, and that it survives any cut.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/segment_reader.h"
#include "lib/queue/queue_log/testing/crash_checker.h"

using namespace pen;
using namespace pen::queue_log;
using pen::testing::FaultStorage;
using pen::testing::ManualClock;

namespace {

constexpr std::uint32_t kRecipients = 100'000;
constexpr std::size_t kAddress = 40;  // bytes of one recipient in the payload

/// The message's payload for the recipients that are left.
std::string addresses(const OrdinalSet& left) {
  std::string out;
  for (const auto& range : left.ranges())
    for (auto n = range.first; n < range.end; ++n)
      out += fmt::format("{:<{}}", fmt::format("u{}@example.com", n), kAddress);
  return out;
}

struct Large {
  Options options;
  Random random{1};
  ManualClock clock;
  FaultStorage disk;
  std::unique_ptr<QueueLog> log;
  Ledger ledger;
  std::uint64_t cuts = 0;
  std::uint64_t operations = 0;
  std::uint64_t cut_each = 0;  // 0: nothing is cut

  explicit Large(std::uint32_t segment_size) {
    options.segment_size = segment_size;
    options.intervals = {seconds(300)};
    options.reserve = 10U << 20;
  }
  void start() {
    if (cut_each != 0)
      disk.before_operation = [this](const FaultStorage& now) {
        if (operations++ % cut_each != 0) return;
        const auto how = FaultStorage::kCuts[operations / cut_each % 5];
        Checker(ledger, options, random, cuts).check(now.cut(how, random), operations % 3 == 0);
      };
    log = *QueueLog::open(disk, options, clock, random);
    while (log->restart().stage() != Recovery::done) {
      BOOST_REQUIRE(log->restart().step(1U << 20).has_value());
      commit();
    }
  }
  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(disk);
      BOOST_REQUIRE(log->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  Envelope envelope(const std::string& id, const OrdinalSet& left, std::uint32_t recipients) {
    Envelope e;
    e.queue_id = id;
    e.recipients = recipients;
    e.remaining = left;
    e.sender = "list@example.org";
    e.domains = {"example.com"};
    e.payload = addresses(left);
    ledger[id].recipients = recipients;
    ledger[id].payloads.insert(e.payload);
    return e;
  }
  std::uint64_t appended() const { return log->figures().appended_bytes; }
  /// How many records of the type are on the disk, parts counted one by one.
  std::size_t records(RecordType type) {
    std::size_t n = 0;
    for (const auto& slot : *disk.list()) {
      const std::string content = disk.content(slot.slot);
      const auto header = decode_segment_header(as_bytes(content).first(kDataStart));
      if (!header) continue;
      SegmentReader reader(disk, *header, kDataStart, SegmentReader::Search::window);
      for (auto got = reader.next(); *got != SegmentReader::Got::end; got = reader.next())
        if (*got == SegmentReader::Got::record && reader.header().type == type) ++n;
    }
    return n;
  }
};

/// What a run of the message through the queue appends, as sentences of the page.
std::vector<std::string> run(Large& q) {
  std::vector<std::string> told;
  q.start();
  OrdinalSet left = OrdinalSet::span(0, kRecipients);
  auto before = q.appended();
  auto tell = [&](std::string_view what, std::uint64_t bytes, std::size_t parts = 1) {
    told.push_back(fmt::format("| {} | {} | {} |", what, parts, bytes));
  };
  const Envelope first = q.envelope("big", left, kRecipients);
  BOOST_REQUIRE(q.log->append(first).has_value());
  const std::uint64_t envelope = q.appended() - before;
  q.commit();
  tell("ENVELOPE, all recipients left", envelope, q.records(RecordType::envelope));
  q.ledger["big"].accepted = true;
  q.log->commits().flush();
  q.commit();
  before = q.appended();

  auto due = q.log->runners().next_due(kJournal, q.clock.wall_now());
  BOOST_REQUIRE(due->message.has_value());
  BOOST_TEST((due->message->envelope.payload == first.payload));
  BOOST_REQUIRE(q.log->work().start(*due->message).has_value());
  tell("START", q.appended() - before);

  auto deliver = [&](const OrdinalSet& set) {
    q.ledger["big"].tried.add(set);
    BOOST_REQUIRE(q.log->work().delivered("big", set, "250 2.0.0 ok").has_value());
    left.remove(set);
  };
  before = q.appended();
  deliver(OrdinalSet::span(0, 1000));
  tell("DELIVERY to 1,000 recipients in a row", q.appended() - before);
  q.commit();
  q.ledger["big"].delivered.add(OrdinalSet::span(0, 1000));
  OrdinalSet scattered;
  for (std::uint32_t n = 1000; n < kRecipients; n += 100) scattered.add(n);
  before = q.appended();
  deliver(scattered);
  tell(fmt::format("DELIVERY to {} recipients, each hundredth", scattered.count()), q.appended() - before);
  q.commit();
  q.ledger["big"].delivered.add(scattered);
  deliver(OrdinalSet::span(1000, kRecipients / 2));
  q.commit();
  q.ledger["big"].delivered.add(OrdinalSet::span(1000, kRecipients / 2));

  // A crash comes while it is being worked on: recovery writes it anew without those that have it.
  q.log.reset();
  auto hook = std::move(q.disk.before_operation);
  q.disk = q.disk.cut(FaultStorage::Cut::none, q.random);
  q.disk.before_operation = std::move(hook);
  q.start();
  BOOST_TEST(q.log->restart().report().working == 1u);
  due = q.log->runners().next_due(kJournal, q.clock.wall_now());
  BOOST_REQUIRE(due->message.has_value());
  BOOST_TEST((due->message->envelope.remaining == left));
  BOOST_REQUIRE(q.log->work().start(*due->message).has_value());
  before = q.appended();
  const std::size_t parts = q.records(RecordType::envelope);
  BOOST_REQUIRE(q.log->work().defer("big", kFirstRetry, q.envelope("big", left, kRecipients)).has_value());
  const std::uint64_t replaced = q.appended() - before;
  q.log->commits().flush();
  q.commit();
  tell(fmt::format("replacement ENVELOPE, {} recipients left", left.count()), replaced,
       q.records(RecordType::envelope) - parts);
  q.clock.advance(seconds(400));
  due = q.log->runners().next_due(kFirstRetry, q.clock.wall_now());
  BOOST_REQUIRE(due->message.has_value());
  BOOST_REQUIRE(q.log->work().start(*due->message).has_value());
  deliver(left);
  q.commit();
  q.ledger["big"].finish_called = true;
  BOOST_REQUIRE(q.log->work().finish("big").has_value());
  q.log->commits().save_positions();
  q.log->commits().flush();
  q.commit();
  return told;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log_large)

BOOST_AUTO_TEST_CASE(the_figures_of_the_page_are_what_the_code_writes) {
  Large q(4U << 20);
  std::ifstream page("docs/queue-figures.md");
  std::stringstream text;
  text << page.rdbuf();
  for (const std::string& line : run(q))
    BOOST_CHECK_MESSAGE(text.str().find(line) != std::string::npos, "docs/queue-figures.md should show " << line);
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_recipients_survive_any_cut) {
  Large q(1U << 20);
  q.cut_each = 1;
  try {
    run(q);
  } catch (const Violation& v) {
    BOOST_FAIL(v.what);
  }
  std::cout << "100,000 recipients: " << q.cuts << " cuts" << std::endl;
  BOOST_TEST(q.cuts >= 100u);
}

BOOST_AUTO_TEST_SUITE_END()
