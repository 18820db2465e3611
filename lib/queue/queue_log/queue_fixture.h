#pragma once
/// A queue log over a disk in memory, with what every test of it does: commit, restart, take the next message.
///
/// Use:     BOOST_FIXTURE_TEST_CASE(…, Queue) { recover(); accept(envelope("one")); restart(FaultStorage::Cut::none); }
#include <boost/test/unit_test.hpp>
#include <memory>
#include <optional>
#include <string>

#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

namespace pen::queue_log {

using testing::FaultStorage;
using testing::ManualClock;

struct Queue {
  Random random{42};
  ManualClock clock;
  FaultStorage disk;
  std::unique_ptr<QueueLog> log;
  Options options;

  Queue() {
    options.segment_size = 16384;
    options.intervals = {seconds(300), seconds(600)};
    options.reserve = 0;
    options.save_every = 65536;
    open();
  }
  void open() {
    log.reset();
    auto opened = QueueLog::open(disk, options, clock, random);
    BOOST_REQUIRE(opened.has_value());
    log = *std::move(opened);
  }
  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(disk);
      BOOST_REQUIRE(log->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  }
  void recover() {
    while (*log->restart().step(4096) == Recovery::reading) commit();
    commit();
    BOOST_REQUIRE(log->restart().stage() == Recovery::done);
  }
  void restart(FaultStorage::Cut how) {
    log.reset();
    disk = disk.cut(how, random);
    open();
    recover();
  }
  static Envelope envelope(std::string id, std::string payload = "hello", std::uint32_t n = 1) {
    Envelope e;
    e.queue_id = std::move(id);
    e.recipients = n;
    e.remaining = OrdinalSet::span(0, n);
    e.sender = "a@example.org";
    e.domains = {"example.com"};
    e.payload = std::move(payload);
    return e;
  }
  QueueLog::Appended accept(const Envelope& e) {
    auto a = log->append(e);
    BOOST_REQUIRE(a.has_value());
    commit();
    BOOST_REQUIRE_GE(log->commits().committed(), a->ticket);
    return *a;
  }
  std::optional<Stored> due(LogId id = kJournal) {
    for (int i = 0; i < 10000; ++i) {
      auto d = log->runners().next_due(id, clock.wall_now());
      BOOST_REQUIRE(d.has_value());
      if (d->message) return d->message;
      if (!d->more && !(d->next && *d->next <= clock.wall_now())) return std::nullopt;
      commit();
    }
    BOOST_FAIL("the runner does not come to an end");
    return std::nullopt;
  }
};

}  // namespace pen::queue_log
