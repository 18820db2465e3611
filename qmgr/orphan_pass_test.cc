/// The orphan pass over a queue log and a spool in memory. What cuts do to both is in spool_crash_test.cc.
#include "qmgr/orphan_pass.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/queue/spool/fault_files.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/suite.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(orphan_pass)

namespace {

struct Fixture {
  testing::FaultStorage log_disk;
  spool::FaultDisk disk;
  testing::ManualClock clock;
  Random random{11};
  std::unique_ptr<queue_log::QueueLog> log;
  std::unique_ptr<spool::Spool> spool;
  std::vector<std::string> missing;
  OrphanPass::GaveUp gave_up;  // of the last pass

  Fixture() {
    queue_log::Options options;
    options.segment_size = 8192;
    options.intervals = {seconds(300)};
    options.reserve = 8192;
    auto opened = queue_log::QueueLog::open(log_disk, options, clock, random);
    BOOST_REQUIRE(opened.has_value());
    log = *std::move(opened);
    for (auto state = queue_log::Recovery::reading; state != queue_log::Recovery::done;) {
      state = log->restart().step(4096).value();
      commit();
    }
    open_spool();
    spool->sweep();
  }
  /// As at a start: nothing is known of the files that are there.
  void open_spool() {
    spool.reset();
    auto opened = spool::Spool::open(disk.files(), 0, [this] { return random.next(); }, 1);
    BOOST_REQUIRE(opened.has_value());
    spool = *std::move(opened);
  }
  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(log_disk);
      BOOST_REQUIRE(log->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  queue_log::Envelope envelope(const std::string& id, spool::BodyRef body) {
    queue_log::Envelope e;
    e.queue_id = id;
    e.recipients = 1;
    e.remaining = queue_log::OrdinalSet::one(0);
    Encoder(e.payload)(body);
    return e;
  }
  /// A durable message with a file of its own.
  spool::BodyRef queued(const std::string& id) {
    auto lease = spool->lease(0);
    BOOST_REQUIRE(lease.has_value());
    disk.write(lease->fd.get(), "content", spool::kContentOffset);
    disk.sync(lease->fd.get());
    const auto body = spool->take(lease->lease, id, 7).value();
    BOOST_REQUIRE(log->append(envelope(id, body)).has_value());
    commit();
    return body;
  }
  /// Runs the pass to its end, committing only when it waits for that; then how it ended.
  OrphanPass::Step pass(OrphanPass::BodyOf body_of) {
    OrphanPass pass(*log, *spool, std::move(body_of), [this](const std::string& id) { missing.push_back(id); });
    for (int i = 0; i < 1000; ++i) {
      const auto step = pass.step(1);
      if (step == OrphanPass::Step::unsettled) commit();
      gave_up = pass.gave_up();
      if (step == OrphanPass::Step::ended || step == OrphanPass::Step::given_up) return step;
    }
    BOOST_FAIL("the pass does not end");
    return OrphanPass::Step::given_up;
  }
  static std::optional<spool::BodyRef> body_of(const queue_log::Stored& stored) {
    const auto body = decode<spool::BodyRef>(stored.envelope.payload);
    return body ? std::optional(*body) : std::nullopt;
  }
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(files_of_messages_are_kept_and_the_others_are_free) {
  queued("A1");
  const auto orphan = spool->lease(0);
  queued("A2");
  open_spool();
  BOOST_TEST((pass(body_of) == OrphanPass::Step::ended));
  BOOST_TEST(spool->figures().used == 2U);
  BOOST_TEST(spool->figures().free == 1U);
  BOOST_TEST(missing.empty());
}

BOOST_AUTO_TEST_CASE(a_message_on_its_way_between_two_logs_keeps_its_file) {
  const auto body = queued("A1");
  const auto due = log->runners().next_due(queue_log::kJournal, clock.wall_now());
  BOOST_REQUIRE(due->message.has_value());
  BOOST_REQUIRE(log->work().start(*due->message).has_value());
  commit();
  BOOST_REQUIRE(log->work().defer("A1", queue_log::kFirstRetry, envelope("A1", body)).has_value());
  open_spool();  // the replacement is in memory only
  BOOST_TEST((pass(body_of) == OrphanPass::Step::ended));
  BOOST_TEST(spool->figures().used == 1U);
}

BOOST_AUTO_TEST_CASE(a_message_that_cannot_be_read_keeps_every_file_from_use) {
  queued("A1");
  open_spool();
  BOOST_TEST((pass([](const queue_log::Stored&) { return std::nullopt; }) == OrphanPass::Step::given_up));
  BOOST_TEST(spool->figures().unknown == 1U);
  BOOST_TEST(gave_up.queue_id == "A1");
  BOOST_TEST(gave_up.why.find("envelope is damaged") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_record_that_is_damaged_keeps_every_file_from_use) {
  queued("A1damaged");
  const auto slots = log_disk.list().value();
  std::size_t flipped = 0;
  for (const auto& slot : slots) {
    const auto at = log_disk.content(slot.slot).find("A1damaged");
    if (at == std::string::npos) continue;
    log_disk.flip(slot.slot, at, 1);
    ++flipped;
  }
  BOOST_TEST(flipped == 1U);
  open_spool();
  BOOST_TEST((pass(body_of) == OrphanPass::Step::given_up));
  BOOST_TEST(spool->figures().unknown == 1U);
}

BOOST_AUTO_TEST_CASE(a_pass_that_ends_gave_nothing_up) {
  queued("A1");
  open_spool();
  BOOST_TEST((pass(body_of) == OrphanPass::Step::ended));
  BOOST_TEST((gave_up.queue_id.empty() && gave_up.why.empty()));
}

BOOST_AUTO_TEST_CASE(what_names_no_file_is_not_read) {
  for (int n = 0; n < 300; ++n) {
    auto e = envelope("small" + std::to_string(n), 0);
    e.self_contained = true;
    BOOST_REQUIRE(log->append(e).has_value());
    commit();
  }
  queued("large");
  open_spool();
  std::size_t read = 0;
  BOOST_TEST((pass([&](const queue_log::Stored& stored) {
                ++read;
                return body_of(stored);
              }) == OrphanPass::Step::ended));
  BOOST_TEST(spool->figures().used == 1U);
  BOOST_TEST(read >= 1U);
  BOOST_TEST(read < 150U);  // those in the segment that has no footer yet
}

BOOST_AUTO_TEST_CASE(a_file_that_is_gone_is_reported) {
  BOOST_REQUIRE(log->append(envelope("A1", (1ULL << 32) | 77)).has_value());
  commit();
  queued("A2");
  open_spool();
  BOOST_TEST((pass(body_of) == OrphanPass::Step::ended));
  BOOST_TEST(missing == std::vector<std::string>{"A1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
