/// The manager, the scheduler and the queue log together over memory storage, with programs played by the test.
#include "qmgr/manager.h"

#include <boost/test/unit_test.hpp>

#include <deque>
#include <map>
#include <set>

#include "lib/destdb/facts.h"
#include "lib/queue_log/scan.h"
#include "lib/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

namespace pen::qmgr {
namespace {

using queue_log::QueueLog;
using testing::FaultStorage;

/// What outlives qmgr: the disk, the clock, and what the world saw.
struct Outside {
  testing::ManualClock clock;
  std::map<std::string, int> delivered;        // "id address" → times
  std::map<std::string, int> in_flight_twice;  // deliveries whose record may have been lost
  std::set<std::string> acknowledged;          // ids
  std::map<std::string, std::vector<std::string>> wanted;  // id → addresses
  std::vector<std::string> notices;                        // "kind id: addresses"
  int next_notice = 0;
  bool notice_was_durable = false;  // at the cut
};

class Qmgr : public Ports {
 public:
  Qmgr(Outside& outside, FaultStorage& storage, ManagerOptions options = {}, Options scheduler = {})
      : outside_(outside), storage_(storage), random_(7), scheduler_random_(8) {
    queue_log::Options log_options;
    log_options.segment_size = 32768;
    log_options.intervals = queue_log::retry_ladder(seconds(300), seconds(4000));
    log_options.reserve = 65536;
    auto log = QueueLog::open(storage_, log_options, outside.clock, random_);
    BOOST_REQUIRE_MESSAGE(log.has_value(), (log ? "" : log.error().message()));
    log_ = std::move(*log);
    scheduler_ = std::make_unique<Scheduler>(
        scheduler, [](std::string_view) { return TransportLimits{}; }, table_, scheduler_random_);
    manager_ = std::make_unique<Manager>(options, *log_, *scheduler_, *this, outside.clock);
  }

  void recover() {
    for (int i = 0; i < 10000; ++i) {
      auto step = log_->recover_step(4096);
      BOOST_REQUIRE(step.has_value());
      commit();
      if (*step == queue_log::Recovery::done) return;
    }
    BOOST_FAIL("recovery does not end");
  }

  void send(const std::string& id, const std::string& from, const std::vector<std::string>& to,
            std::vector<mail::Discharge> discharges = {}, std::uint64_t permit = 0) {
    mail::Envelope e;
    e.queue_id = id;
    e.arrival = outside_.clock.wall_now();
    e.sender = from;
    for (const auto& a : to)
      e.recipients.push_back({.address = a, .original = {}, .orcpt = {}, .notify = 0});
    const std::string body = "Subject: " + id + "\r\n\r\nbody of " + id + "\r\n";
    e.body.size = body.size();
    e.discharges = std::move(discharges);
    outside_.wanted[id] = to;
    manager_->enqueue(std::move(e), permit, body, 0, 0,
                      [this, id](ipc::enqueue::Outcome o, const std::string&) {
                        last_ = o;
                        if (o == ipc::enqueue::Outcome::ok) outside_.acknowledged.insert(id);
                      });
  }

  /// Everything that can happen without time passing.
  void run() {
    for (int i = 0; i < 10000; ++i) {
      manager_->settle();
      const bool moved = play();
      if (!commit() && !moved && work_.empty() && manager_->wake_at() > outside_.clock.now())
        return;
    }
    BOOST_FAIL("the manager does not come to rest");
  }
  void advance(std::chrono::nanoseconds by) {
    outside_.clock.advance(by);
    log_->flush();
    run();
  }

  bool commit() {
    auto batch = log_->next_batch();
    if (!batch) return false;
    auto done = batch->execute(storage_);
    auto ticket = log_->complete(std::move(*batch), done);
    BOOST_REQUIRE(ticket.has_value());
    manager_->committed(*ticket);
    return true;
  }

  std::size_t listed() {
    log_->flush();
    while (commit()) {
    }
    std::set<std::string> ids;
    auto scan = log_->scan();
    while (!scan->done()) {
      auto some = scan->step(100);
      BOOST_REQUIRE(some.has_value());
      for (auto& l : *some) ids.insert(l.queue_id);
    }
    return ids.size();
  }
  std::optional<queue_log::Listed> where(const std::string& id) {
    log_->flush();
    while (commit()) {
    }
    auto scan = log_->scan();
    while (!scan->done()) {
      auto some = scan->step(100);
      if (!some) break;
      for (auto& l : *some) {
        if (l.queue_id == id) return l;
      }
    }
    return std::nullopt;
  }

  /// How a recipient fares: by its local part: ok…, no… (fails), later… (deferred), hang… (stays in hand).
  bool play() {
    bool moved = false;
    for (auto& r : std::exchange(routes_, {})) {
      moved = true;
      ipc::route::Routed answer;
      answer.request = r.first;
      if (r.second.starts_with("nowhere")) {
        answer.answer =
            ipc::route::Unroutable{{mail::Action::failed, "5.1.2", "no such domain", {}, {}}};
      } else {
        ipc::route::Resolved resolved;
        resolved.transport = "smtp";
        resolved.nexthop = r.second.substr(r.second.find('@') + 1);
        resolved.recipient = r.second;
        resolved.for_domain = routes_for_domains;
        ipc::Destination d;
        d.transport = "smtp";
        d.host = "mx." + resolved.nexthop;
        d.address = resolved.nexthop == "tar.example" ? "192.0.2.66" : "192.0.2.1";
        d.port = 25;
        resolved.levels.push_back({{d}});
        answer.answer = resolved;
      }
      if (routers_answer) manager_->routed(answer);
    }
    for (const auto c : std::exchange(opening_, {})) {
      moved = true;
      ipc::delivery::Features f;
      f.window = 5;
      if (hosts_answer) {
        manager_->connection_opened(c, f);
      } else {
        manager_->connection_closed({.connection = c,
                                     .opened = false,
                                     .trouble = ipc::delivery::Trouble::refused,
                                     .status = {mail::Action::deferred, "4.4.1", "refused", {}, {}},
                                     .unstarted = {}});
      }
    }
    for (auto& job : std::exchange(work_, {})) {
      moved = true;
      if (job.recipients.front().recipient.address.starts_with("hang")) {
        in_hand.push_back(job);
        continue;
      }
      answer(job);
    }
    for (auto& n : std::exchange(reports_, {})) {
      moved = true;
      if (!bounce_works) {
        manager_->notified({n.request, false, {}, "bounce is out of order"});
        continue;
      }
      std::string text = (n.kind == ipc::bounce::Kind::failure ? "failure " : "other ") +
                         n.envelope.queue_id + ":";
      mail::Discharge d{n.envelope.queue_id, {}, static_cast<std::uint8_t>(n.kind)};
      for (const auto& r : n.recipients) {
        text += " " + r.recipient.address;
        d.ordinals.push_back(r.ordinal);
      }
      const std::string id = "N" + std::to_string(++outside_.next_notice) + n.envelope.queue_id;
      outside_.notices.push_back(text);
      send(id, "", {"ok-notice@" + std::string("local.example")}, {d}, n.permit);
      if (bounce_answers) waiting_answers_.push_back({n.request, true, id, {}});
    }
    for (auto& a : std::exchange(waiting_answers_, {})) {
      if (outside_.acknowledged.contains(a.queue_id)) {
        manager_->notified(a);
        moved = true;
      } else {
        waiting_answers_.push_back(a);
      }
    }
    return moved;
  }
  void answer(const ipc::delivery::Job& job) {
    ipc::delivery::JobResult result;
    result.job = job.job;
    result.connection = job.connection;
    for (const auto& r : job.recipients) {
      const std::string& a = r.recipient.address;
      mail::DeliveryStatus status{mail::Action::delivered, "2.0.0", "250 ok", {}, {}};
      if (a.starts_with("no")) status = {mail::Action::failed, "5.1.1", "550 no such user", {}, {}};
      if (a.starts_with("later") && !all_well)
        status = {mail::Action::deferred, "4.2.1", "450 " + later_text, {}, {}};
      if (status.action == mail::Action::delivered) ++outside_.delivered[job.queue_id + " " + a];
      result.results.push_back({{r.ordinal}, status});
    }
    bodies[job.queue_id] = job_bodies_[job.job];
    manager_->job_result(result);
  }

  void route(const ipc::route::Route& r) override {
    ++routes_asked;
    routes_.emplace_back(r.request, std::string(r.recipient));
  }
  void open_connection(const std::string&, const ipc::delivery::OpenConnection& o) override {
    opening_.push_back(o.connection);
  }
  void close_connection(const std::string&, ConnectionNumber) override {}
  void hand_job(const std::string&, ipc::delivery::Job& job, async::Fd) override {
    job_bodies_[job.job] = job.inline_body;
    job.inline_body = {};
    work_.push_back(job);
  }
  void notify(const ipc::bounce::Notify& n, async::Fd) override {
    ipc::bounce::Notify copy = n;
    copy.inline_body = {};
    (bounce_waits ? reports_held : reports_).push_back(std::move(copy));
  }
  Result<async::Fd> open_body(std::uint64_t, const std::string&) override { return async::Fd(); }
  void release_body(std::uint64_t, const std::string&) override {}
  void queue_state(bool a) override { states.push_back(a); }
  [[noreturn]] void fatal(const std::string& why) override {
    BOOST_FAIL("fatal: " << why);
    std::abort();
  }

  Outside& outside_;
  FaultStorage& storage_;
  Random random_, scheduler_random_;
  destdb::MemoryTable table_;
  std::unique_ptr<QueueLog> log_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Manager> manager_;
  ipc::enqueue::Outcome last_ = ipc::enqueue::Outcome::try_later;
  std::deque<std::pair<std::uint64_t, std::string>> routes_;
  std::deque<ConnectionNumber> opening_;
  std::deque<ipc::delivery::Job> work_;
  std::deque<ipc::delivery::Job> in_hand;
  std::deque<ipc::bounce::Notify> reports_, reports_held;
  std::deque<ipc::bounce::Notified> waiting_answers_;
  std::map<JobNumber, std::string> job_bodies_;
  std::map<std::string, std::string> bodies;
  std::vector<bool> states;
  std::string later_text = "later";
  std::size_t routes_asked = 0;
  bool routes_for_domains = false;
  bool routers_answer = true, hosts_answer = true, bounce_works = true, bounce_answers = true,
       all_well = false, bounce_waits = false;
};

struct Fixture {
  Outside outside;
  FaultStorage disk;
  std::unique_ptr<Qmgr> qmgr;
  Fixture() { start(); }
  void start(ManagerOptions options = {}, Options scheduler = {}) {
    qmgr.reset();
    qmgr = std::make_unique<Qmgr>(outside, disk, options, scheduler);
    qmgr->recover();
    qmgr->run();
  }
  void kill(FaultStorage::Cut how = FaultStorage::Cut::kill) {
    Random random(3);
    FaultStorage after = disk.cut(how, random);
    qmgr.reset();
    disk = std::move(after);
  }
  int delivered(const std::string& what) { return outside.delivered[what]; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(manager, Fixture)

BOOST_AUTO_TEST_CASE(a_message_is_acknowledged_after_the_sync_then_delivered_and_gone) {
  qmgr->send("A1", "s@x.example", {"ok@a.example", "ok2@a.example", "ok@b.example"});
  BOOST_TEST(!outside.acknowledged.contains("A1"));
  const auto syncs = disk.syncs();
  qmgr->commit();
  BOOST_TEST(outside.acknowledged.contains("A1"));
  BOOST_TEST(disk.syncs() == syncs + 1);
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(delivered("A1 ok2@a.example") == 1);
  BOOST_TEST(delivered("A1 ok@b.example") == 1);
  BOOST_TEST(qmgr->bodies["A1"] == "Subject: A1\r\n\r\nbody of A1\r\n");
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
}

BOOST_AUTO_TEST_CASE(the_same_id_again_is_ok_again_and_delivered_once) {
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(what_a_stop_leaves_waiting_is_no_failed_try_and_goes_out_at_the_next_start) {
  qmgr->manager_->transport_up("smtp", false);
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  qmgr->manager_->drain();
  qmgr->manager_->transport_failed("smtp", "its program went with the stop");
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().deferred == 0U);
  kill();
  start();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(a_route_that_holds_for_a_domain_is_asked_for_once) {
  qmgr->routes_for_domains = true;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  // more than are routed from memory in one go
  std::vector<std::string> many;
  for (int i = 0; i < 500; ++i) many.push_back("ok" + std::to_string(i) + "@a.example");
  qmgr->send("A2", "s@x.example", many);
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  for (const auto& to : many) BOOST_TEST(delivered("A2 " + to) == 1);
  BOOST_TEST(qmgr->routes_asked < 400U);  // those of the first two hundred at least are known
  const std::size_t before = qmgr->routes_asked;
  qmgr->manager_->router_lost(0);
  qmgr->send("A3", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->routes_asked == before + 1);  // the next one may say something else
}

BOOST_AUTO_TEST_CASE(an_answer_does_not_wait_for_the_work_on_its_message) {
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  BOOST_TEST(qmgr->commit());
  BOOST_TEST(outside.acknowledged.contains("A1"));
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
  BOOST_TEST((qmgr->manager_->wake_at() <= outside.clock.now()));
  qmgr->manager_->settle();
  BOOST_TEST(qmgr->manager_->figures().active == 1U);
}

BOOST_AUTO_TEST_CASE(messages_whose_envelopes_were_packed_fare_like_others) {
  constexpr int kMessages =
      900;  // more than stay unpacked at once, in each way that a message can go
  const char* fates[] = {"ok", "later", "no"};
  for (int i = 0; i < kMessages; ++i) {
    const std::string number = std::to_string(i);
    qmgr->send("A" + number, "s@x.example", {fates[i % 3] + number + "@a.example"});
  }
  for (int i = 0; i < 1000 && qmgr->commit(); ++i) {
  }
  qmgr->manager_->settle();
  BOOST_TEST(qmgr->manager_->figures().active == std::size_t{kMessages});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
  BOOST_TEST(qmgr->listed() == std::size_t{kMessages / 3});
  BOOST_TEST(outside.notices.size() == std::size_t{kMessages / 3});
  for (int i = 0; i < kMessages; i += 3) {
    const std::string number = std::to_string(i);
    BOOST_TEST(delivered("A" + number + " ok" + number + "@a.example") == 1);
    BOOST_TEST(qmgr->bodies["A" + number].starts_with("Subject: A" + number + "\r\n"));
  }
  qmgr->all_well = true;
  qmgr->advance(seconds(4100));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(delivered("A1 later1@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(a_malformed_message_is_refused) {
  qmgr->send("A1", "s@x.example", {});
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::refused));
}

BOOST_AUTO_TEST_CASE(a_deferred_recipient_is_tried_again_at_growing_intervals) {
  qmgr->send("A1", "s@x.example", {"ok@a.example", "later@a.example"});
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
  BOOST_TEST(qmgr->listed() == 1U);
  const auto tries = [&] { return qmgr->manager_->figures().deferred; };
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(299));
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(2));
  BOOST_TEST(tries() == 2U);
  qmgr->advance(seconds(301));
  qmgr->advance(seconds(1));
  BOOST_TEST(tries() >= 2U);
  qmgr->all_well = true;
  qmgr->advance(seconds(5000));
  BOOST_TEST(delivered("A1 later@a.example") == 1);
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_says_when_to_come_back_is_believed_within_bounds) {
  const auto tries = [&] { return qmgr->manager_->figures().deferred; };
  qmgr->later_text = "greylisted, try again in 1000 seconds";
  qmgr->send("A1", "s@x.example", {"later@a.example", "later2@a.example"});
  qmgr->run();
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(999));  // its age alone would have it tried after 300
  BOOST_TEST(tries() == 1U);
  qmgr->later_text = "try again in 10 seconds";  // sooner than a quarter of its age: not believed
  qmgr->advance(seconds(900));
  BOOST_TEST(tries() == 2U);
  qmgr->advance(seconds(200));
  BOOST_TEST(tries() == 2U);
  qmgr->later_text = "try again in 9 hours";
  qmgr->advance(seconds(1000));
  const auto before = tries();
  qmgr->advance(seconds(3900));
  BOOST_TEST(tries() == before);
  qmgr->all_well = true;
  qmgr->advance(seconds(200));
  BOOST_TEST(delivered("A1 later@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(failures_are_reported_once_and_the_message_ends) {
  qmgr->send("A1", "s@x.example", {"no@a.example", "ok@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: no@a.example nowhere@c.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_failing_notification_is_dropped_without_another) {
  qmgr->send("B1", "", {"no@a.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(an_owed_report_survives_a_bounce_program_out_of_order_and_a_restart) {
  qmgr->bounce_works = false;
  qmgr->send("A1", "s@x.example", {"no@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  kill();
  start();
  qmgr->advance(seconds(400));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_durable_notification_discharges_even_when_bounce_dies_before_it_answers) {
  qmgr->bounce_answers = false;
  qmgr->send("A1", "s@x.example", {"no@a.example"});
  qmgr->run();
  qmgr->manager_->bounce_lost();
  qmgr->advance(seconds(10));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_report_is_discharged_only_by_whom_it_was_asked_of_and_as_it_was_asked) {
  using ipc::enqueue::Outcome;
  qmgr->bounce_waits = true;
  qmgr->send("A1", "s@x.example", {"ok@a.example", "no@a.example"});
  qmgr->send("A2", "s@x.example", {"no@a.example"});
  qmgr->run();
  BOOST_REQUIRE(qmgr->reports_held.size() == 2U);
  const ipc::bounce::Notify first = qmgr->reports_held[0], second = qmgr->reports_held[1];
  BOOST_TEST(first.permit != second.permit);
  const auto failure = static_cast<std::uint8_t>(ipc::bounce::Kind::failure);
  const auto success = static_cast<std::uint8_t>(ipc::bounce::Kind::success);
  const mail::Discharge right{first.envelope.queue_id, {first.recipients[0].ordinal}, failure};
  int number = 0;
  auto tried = [&](std::vector<mail::Discharge> discharges, std::uint64_t permit) {
    qmgr->last_ = Outcome::try_later;
    qmgr->send("N" + std::to_string(++number), "", {"s@x.example"}, std::move(discharges), permit);
    qmgr->run();
    return qmgr->last_;
  };
  BOOST_TEST((tried({right}, 0) == Outcome::refused));
  BOOST_TEST((tried({right}, first.permit + 1) == Outcome::refused));
  BOOST_TEST((tried({right}, second.permit) == Outcome::refused));
  BOOST_TEST(
      (tried({{right.queue_id, right.ordinals, success}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{second.envelope.queue_id, {0}, failure}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{right.queue_id, {7}, failure}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{right.queue_id, {right.ordinals[0], 7}, failure}}, first.permit) ==
              Outcome::refused));
  BOOST_TEST((tried({right, {"A9", {0}, failure}}, first.permit) == Outcome::refused));
  const auto before = qmgr->manager_->figures().bounced;
  BOOST_TEST((tried({right}, first.permit) == Outcome::ok));
  BOOST_TEST(qmgr->manager_->figures().bounced == before + 1);
  BOOST_TEST((tried({right}, first.permit) == Outcome::refused));  // it is good once
  BOOST_TEST((tried({}, first.permit) == Outcome::ok));            // a message like any other
}

BOOST_AUTO_TEST_CASE(an_expired_message_is_returned) {
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  for (int i = 0; i < 200 && outside.notices.empty(); ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: later@a.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_refused_connection_defers_and_delivers_later) {
  qmgr->hosts_answer = false;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  BOOST_TEST(delivered("A1 ok@a.example") == 0);
  qmgr->hosts_answer = true;
  qmgr->advance(seconds(301));
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(more_mail_than_the_active_set_holds_follows_from_the_log) {
  ManagerOptions options;
  options.active_messages = 3;
  start(options);
  for (int i = 0; i < 20; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  for (int i = 0; i < 20; ++i)
    BOOST_TEST(delivered("A" + std::to_string(i) + " ok@a.example") == 1);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_tarpit_keeps_its_share_of_the_active_set_and_makes_room_for_others) {
  ManagerOptions options;
  options.active_messages = 150;
  Options scheduler;
  scheduler.backlog_threshold = scheduler.ride_limit = 1;
  scheduler.share_limit = 5;
  start(options, scheduler);
  for (int i = 0; i < 200; ++i)
    qmgr->send("T" + std::to_string(i), "s@x.example", {"hang@tar.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 150U);
  const auto parked = [&] { return qmgr->manager_->figures().parked; };
  BOOST_TEST(parked() == 0U);
  for (int i = 0; i < 10; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(parked() == 0U);  // nobody has waited for long
  for (int i = 0; i < 10; ++i) qmgr->advance(seconds(1));
  for (int i = 0; i < 10; ++i)
    BOOST_TEST(delivered("A" + std::to_string(i) + " ok@a.example") == 1);
  BOOST_TEST(parked() > 0U);
  BOOST_TEST(qmgr->manager_->figures().deferred == 0U);
  BOOST_TEST(qmgr->listed() == 200U);
  // They come back, and the whole of what waits for the tarpit is delivered when it answers.
  qmgr->advance(seconds(301));
  for (int i = 0; i < 200 && qmgr->listed() > 0; ++i) {
    for (const auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
    qmgr->run();
    qmgr->advance(seconds(100));
  }
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_relay_host_that_takes_what_it_is_given_may_have_the_whole_active_set) {
  ManagerOptions options;
  options.active_messages = 40;
  Options scheduler;
  scheduler.backlog_threshold = scheduler.ride_limit = 1;
  scheduler.share_limit = 5;
  start(options, scheduler);
  for (int i = 0; i < 500; ++i)
    qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  for (int i = 0; i < 8; ++i) qmgr->advance(seconds(1));
  BOOST_TEST(qmgr->manager_->figures().parked == 0U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(bodies_beyond_the_bound_are_read_again_from_the_log) {
  ManagerOptions options;
  options.body_bytes = 10;
  start(options);
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->send("A2", "s@x.example", {"later@a.example", "no@a.example"});
  qmgr->run();
  qmgr->all_well = true;
  qmgr->advance(seconds(301));
  BOOST_TEST(qmgr->bodies["A1"] == "Subject: A1\r\n\r\nbody of A1\r\n");
  BOOST_TEST(qmgr->bodies["A2"] == "Subject: A2\r\n\r\nbody of A2\r\n");
}

BOOST_AUTO_TEST_CASE(a_job_in_hand_at_three_deaths_of_its_program_is_held) {
  qmgr->send("A1", "s@x.example", {"hang@a.example"});
  qmgr->run();
  for (int death = 1; death <= 3; ++death) {
    BOOST_TEST_REQUIRE(qmgr->in_hand.size() == 1U);
    const auto job = qmgr->in_hand.front();
    qmgr->in_hand.clear();
    qmgr->manager_->transport_up("smtp", false);
    qmgr->manager_->job_survived_death(job.job);
    qmgr->manager_->connection_closed({.connection = job.connection,
                                       .opened = true,
                                       .trouble = ipc::delivery::Trouble::none,
                                       .status = {},
                                       .unstarted = {job.job}});
    qmgr->run();
    qmgr->manager_->transport_up("smtp", true);
    qmgr->run();
  }
  BOOST_TEST(qmgr->in_hand.empty());
  const auto listed = qmgr->where("A1");
  BOOST_TEST_REQUIRE(listed.has_value());
  BOOST_TEST(listed->place.log == queue_log::kHold);
}

BOOST_AUTO_TEST_CASE(a_look_up_in_hand_at_three_deaths_of_trivial_rewrite_holds_its_message) {
  qmgr->routers_answer = false;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  for (int death = 1; death <= 3; ++death) {
    qmgr->manager_->router_lost(UINT64_MAX);
    qmgr->run();
  }
  const auto listed = qmgr->where("A1");
  BOOST_TEST_REQUIRE(listed.has_value());
  BOOST_TEST(listed->place.log == queue_log::kHold);
}

BOOST_AUTO_TEST_CASE(orders_remove_hold_release_and_requeue) {
  using ipc::queue::Outcome;
  using ipc::queue::Verb;
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  const auto order = [&](Verb verb) {
    std::optional<Outcome> outcome;
    qmgr->manager_->order(*qmgr->where("A1"), verb, [&](Outcome o) { outcome = o; });
    qmgr->run();
    BOOST_TEST_REQUIRE(outcome.has_value());
    BOOST_TEST((*outcome == Outcome::ok));
  };
  order(Verb::hold);
  BOOST_TEST(qmgr->where("A1")->place.log == queue_log::kHold);
  qmgr->advance(seconds(20000));
  BOOST_TEST(qmgr->where("A1")->place.log == queue_log::kHold);
  order(Verb::release);
  BOOST_TEST(qmgr->where("A1")->place.log != queue_log::kHold);
  order(Verb::flush);
  BOOST_TEST(qmgr->manager_->figures().deferred == 3U);
  order(Verb::remove);
  BOOST_TEST(!qmgr->where("A1").has_value());
  kill();
  start();
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_removed_message_with_a_job_on_the_wire_ends_with_it) {
  using ipc::queue::Outcome;
  qmgr->send("A1", "s@x.example", {"hang@a.example", "hang2@b.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(qmgr->in_hand.size() >= 1U);
  std::optional<Outcome> outcome;
  qmgr->manager_->order(*qmgr->where("A1"), ipc::queue::Verb::remove,
                        [&](Outcome o) { outcome = o; });
  qmgr->run();
  BOOST_TEST(!outcome.has_value());
  for (auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
  qmgr->run();
  BOOST_TEST_REQUIRE(outcome.has_value());
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_full_disk_refuses_new_mail_and_drains) {
  disk = FaultStorage();
  disk.capacity = 24;
  start();
  int accepted = 0;
  qmgr->hosts_answer = false;
  for (int i = 0; i < 20000; ++i) {
    qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
    qmgr->run();
    if (qmgr->last_ == ipc::enqueue::Outcome::no_space) break;
    ++accepted;
  }
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::no_space));
  BOOST_TEST(!qmgr->manager_->accepting());
  qmgr->hosts_answer = true;
  for (int i = 0; i < 20; ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(qmgr->manager_->accepting());
  BOOST_TEST(outside.delivered.size() == static_cast<std::size_t>(accepted));
}

BOOST_AUTO_TEST_CASE(whatever_the_moment_of_the_crash_nothing_acknowledged_is_lost) {
  struct Cut {
    FaultStorage disk;
    Outside outside;
    std::string how;
  };
  std::vector<Cut> cuts;
  Random random(11);
  disk.before_operation = [&](const FaultStorage& now) {
    for (const auto how : FaultStorage::kCuts) {
      outside.notice_was_durable = outside.acknowledged.contains("N1A1");
      cuts.push_back({now.cut(how, random), outside,
                      "operation " + std::to_string(now.operations()) + " cut " +
                          std::to_string(static_cast<int>(how))});
    }
  };
  qmgr->send("A1", "s@x.example", {"ok@a.example", "no@b.example", "later@c.example"});
  qmgr->run();
  qmgr->send("A2", "s@x.example", {"ok@a.example"});
  qmgr->run();
  qmgr->advance(seconds(301));
  qmgr->all_well = true;
  qmgr->advance(seconds(700));
  disk.before_operation = nullptr;
  BOOST_TEST(cuts.size() > 20U);
  for (auto& cut : cuts) {
    BOOST_TEST_CONTEXT(cut.how) {
      Outside& after = cut.outside;
      Qmgr again(after, cut.disk);
      again.all_well = true;
      again.recover();
      again.run();
      for (int i = 0; i < 6; ++i) again.advance(seconds(4000));
      for (const auto& id : after.acknowledged) {
        for (const auto& address : after.wanted[id]) {
          if (address.starts_with("no")) {
            if (id.starts_with("A")) BOOST_TEST(after.notices.size() >= 1U);
          } else {
            const int times = after.delivered[id + " " + address];
            BOOST_TEST(times >= 1, id << " " << address << " lost");
            BOOST_TEST(times <= 2, id << " " << address << " delivered " << times << " times");
          }
        }
      }
      // A notice is made again only when the first was not durable.
      if (cut.outside.notice_was_durable) BOOST_TEST(!after.acknowledged.contains("N2A1"));
      BOOST_TEST(after.notices.size() <= 2U);
      BOOST_TEST(again.listed() == 0U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
