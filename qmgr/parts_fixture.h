#pragma once
/// For tests of one part of the manager: its surroundings over memory storage, and edges that note what they are asked.
///
/// Use:     BOOST_FIXTURE_TEST_SUITE(name, PartsFixture)
#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>
#include <vector>

#include "lib/queue/destdb/facts.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"
#include "qmgr/rounds.h"
#include "qmgr/runners.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

/// Edges that do nothing but remember.
struct NotedPorts final : Ports {
  int settles = 0;
  std::vector<ipc::route::Route> routes;
  std::vector<std::string> asked;  // recipients of the routes
  std::vector<bool> forwarded;     // and whether their sender may be rewritten
  std::vector<ipc::delivery::Job> jobs;
  std::vector<ipc::bounce::Notify> notices;
  std::vector<std::uint64_t> released;  // spool files
  bool spool_opens = true;

  void settle_soon() override { ++settles; }
  void route(const ipc::route::Route& r) override {
    routes.push_back(r);
    asked.emplace_back(r.recipient);
    forwarded.push_back(r.forwarded);
  }
  void open_connection(const std::string&, const ipc::delivery::OpenConnection&) override {}
  void close_connection(const std::string&, ConnectionNumber) override {}
  void hand_job(const std::string&, ipc::delivery::Job& job, Fd) override {
    jobs.push_back(job);
    jobs.back().inline_body = {};
  }
  void notify(const ipc::bounce::Notify& n, Fd) override {
    notices.push_back(n);
    notices.back().inline_body = {};
  }
  std::vector<ipc::suppression::Ask> suppression_asked;
  std::vector<ipc::suppression::Failure> suppression_told;
  void ask_suppression(const ipc::suppression::Ask& a) override { suppression_asked.push_back(a); }
  void tell_suppression(ipc::suppression::Failure f) override { suppression_told.push_back(std::move(f)); }
  std::size_t counts_asked = 0;
  void write_counts() override { ++counts_asked; }
  std::vector<ipc::verify::Probed> probed_results;
  void probed(ipc::verify::Probed results) override { probed_results.push_back(std::move(results)); }
  Result<Fd> open_body(std::uint64_t, const std::string&) override {
    if (!spool_opens) return fail_errno("open", EIO);
    return Fd();
  }
  void release_body(std::uint64_t spool_file, const std::string&) override { released.push_back(spool_file); }
  void queue_state(bool) override {}
  [[noreturn]] void fatal(const Error& why) override {
    BOOST_FAIL("fatal: " << why.message());
    std::abort();
  }
};

struct PartsFixture {
  testing::ManualClock clock;
  testing::FaultStorage disk;
  Random random{7};
  destdb::MemoryTable destinations;
  std::unique_ptr<queue_log::QueueLog> log = open();
  Scheduler scheduler;
  NotedPorts ports;
  Surroundings around{{}, *log, scheduler, ports, clock};

  /// routing_workers 0: the scheduler keeps every recipient that it is given.
  explicit PartsFixture(std::uint32_t routing_workers = 0)
      : scheduler(
            scheduling(routing_workers), [](std::string_view) { return TransportLimits{}; }, destinations, random) {
    recover();
  }

  static Options scheduling(std::uint32_t routing_workers) {
    Options o;
    o.routing_workers = routing_workers;
    return o;
  }
  std::unique_ptr<queue_log::QueueLog> open() {
    queue_log::Options options;
    options.segment_size = 32768;
    options.intervals = queue_log::retry_ladder(seconds(300), seconds(4000));
    options.reserve = 65536;
    auto opened = queue_log::QueueLog::open(disk, options, clock, random);
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
    return std::move(*opened);
  }
  void recover() {
    for (int i = 0; i < 10000; ++i) {
      auto step = log->restart().step(4096);
      BOOST_REQUIRE(step.has_value());
      while (commit()) {
      }
      if (*step == queue_log::Recovery::done) return;
    }
    BOOST_FAIL("recovery does not end");
  }
  bool commit() {
    auto batch = log->commits().next_batch();
    if (!batch) return false;
    auto done = batch->execute(disk);
    BOOST_REQUIRE(log->commits().complete(std::move(*batch), done).has_value());
    return true;
  }
  mail::Envelope envelope(const std::string& id, const std::vector<std::string>& to = {"r@x.example"},
                          const std::string& from = "s@x.example") const {
    mail::Envelope e;
    e.queue_id = id;
    e.arrival = clock.wall_now();
    e.sender = from;
    for (const auto& a : to) e.recipients.push_back({.address = a, .original = {}, .orcpt = {}, .notify = 0});
    return e;
  }
  /// A message that is in the journal, on the disk.
  std::unique_ptr<Active> stored(mail::Envelope e, const std::string& body = "body\r\n") {
    e.body.size = body.size();
    Beginning beginning = beginning_of(e, clock.wall_now());
    queue_log::Envelope record;
    to_log(e, beginning, body, 0, 0, record);
    const auto appended = log->append(record);
    BOOST_REQUIRE(appended.has_value());
    sync();
    auto m = std::make_unique<Active>();
    m->place = appended->place;
    m->replacement_bytes = appended->bytes;
    m->remaining = std::move(beginning.remaining);
    m->outstanding = m->remaining.count();
    m->set_envelope(std::move(e));
    m->body = body;
    return m;
  }
  /// The same with its work begun.
  std::unique_ptr<Active> begun(mail::Envelope e, const std::string& body = "body\r\n") {
    auto m = stored(std::move(e), body);
    BOOST_REQUIRE(log->work().start(m->id(), m->place, m->replacement_bytes).has_value());
    sync();
    return m;
  }
  /// Everything appended so far is on the disk afterwards.
  void sync() {
    log->commits().flush();
    while (commit()) {
    }
  }
};

/// With the parts that most others stand on.
struct RoundsFixture : PartsFixture {
  ActiveSet active{around};
  Acknowledgements acknowledgements{*log};
  Rounds rounds{around, active, acknowledgements};

  explicit RoundsFixture(std::uint32_t routing_workers = 0) : PartsFixture(routing_workers) {
    scheduler.set_time(clock.now(), clock.wall_now());
  }
  /// Takes a message into work; the scheduler is given these of its recipients.
  Active& work_on(mail::Envelope e, const Ordinals& wanted = {}) {
    Active& m = active.add(begun(std::move(e)));
    m.active = clock.wall_now();
    scheduler.admit(m.number, wanted);
    return m;
  }
  /// Whatever is appended becomes durable, and counts.
  void settle_results() {
    sync();
    while (acknowledgements.call_next()) {
    }
  }
};

/// With those that bring messages into the active set, and orders.
struct AdmissionFixture : RoundsFixture {
  Reports reports{around, active, rounds};
  Admission admission{around, active, rounds};
  Runners runners{around, admission, reports};

  /// Everything that has come to the logs is in the active set afterwards, or waits.
  void run() {
    for (int i = 0; i < 1000; ++i) {
      scheduler.set_time(clock.now(), clock.wall_now());
      settle_results();
      runners.commit_came();
      if (!runners.run_one()) return;
    }
    BOOST_FAIL("the runners do not come to rest");
  }
  std::string in_work() const {
    std::string ids;
    for (const char* id : {"A1", "A2", "A3", "A4"})
      if (active.find(id) != nullptr) ids += std::string(id) + " ";
    return ids;
  }
  /// The message leaves the active set for a retry log.
  void defer(const std::string& id, seconds delay) {
    Active& m = *active.find(id);
    const auto to = log->runners().retry_log_for(delay);
    BOOST_REQUIRE(log->work().defer(id, to, to_log(m, m.body)).has_value());
    runners.due_at(to, clock.wall_now() + log->runners().interval(to));
    (void)scheduler.withdraw(m.number);
    active.remove(m);
    sync();
  }
  /// As the log lists the message; nullopt: it is not in the queue.
  std::optional<queue_log::Listed> find(const std::string& id) {
    sync();
    auto scan = log->find({id});
    while (!scan->done()) {
      auto some = scan->step(100);
      BOOST_REQUIRE(some.has_value());
      for (auto& l : *some)
        if (l.queue_id == id) return l;
    }
    return std::nullopt;
  }
  queue_log::Listed where(const std::string& id) {
    auto found = find(id);
    BOOST_REQUIRE_MESSAGE(found.has_value(), id << " is not in the queue");
    return std::move(*found);
  }
  bool stored_anywhere(const std::string& id) { return find(id).has_value(); }
};

inline mail::DeliveryStatus ok() { return mail::make_status(mail::Action::delivered, "2.0.0", "250 ok"); }
inline mail::DeliveryStatus failed() { return mail::make_status(mail::Action::failed, "5.1.1", "550 no such user"); }
inline mail::DeliveryStatus later() { return mail::make_status(mail::Action::deferred, "4.2.1", "450 later"); }

}  // namespace pen::qmgr
