#pragma once
/// For tests of the manager: the manager, the scheduler and the queue log together over memory storage, with programs
/// played by the test.
///
/// Use:     BOOST_FIXTURE_TEST_SUITE(name, Fixture)
/// Parts:   Outside: what outlives qmgr. Qmgr: one life of it, and what the other programs do. Fixture: both, and a
///          disk.
#include <boost/test/unit_test.hpp>

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "lib/mail/expanded.h"
#include "lib/queue/destdb/facts.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

using queue_log::QueueLog;
using testing::FaultStorage;

/// What outlives qmgr: the disk, the clock, and what the world saw.
struct Outside {
  testing::ManualClock clock;
  std::map<std::string, int> delivered;                    // "id address" → times
  std::map<std::string, int> in_flight_twice;              // deliveries with a record that may have been lost
  std::set<std::string> acknowledged;                      // ids
  std::map<std::string, std::vector<std::string>> wanted;  // id → addresses
  std::vector<std::string> notices;                        // "kind id: addresses"
  int next_notice = 0;
  bool notice_was_durable = false;  // at the cut
};

class Qmgr : public Ports {
 public:
  Qmgr(Outside& outside, FaultStorage& storage, ManagerOptions options = {}, Options scheduler = {},
       std::uint32_t segment_size = 32768)
      : outside_(outside), storage_(storage), random_(7), scheduler_random_(8) {
    queue_log::Options log_options;
    log_options.segment_size = segment_size;
    log_options.intervals = queue_log::retry_ladder(seconds(300), seconds(4000));
    log_options.reserve = 65536;
    auto log = QueueLog::open(storage_, log_options, outside.clock, random_);
    BOOST_REQUIRE_MESSAGE(log.has_value(), (log ? "" : log.error().message()));
    log_ = std::move(*log);
    scheduler_ =
        std::make_unique<Scheduler>(scheduler, [](std::string_view) { return limits(); }, table_, scheduler_random_);
    manager_ = std::make_unique<Manager>(options, *log_, *scheduler_, *this, outside.clock);
  }

  /// As main.cf has them: a host that nobody knows gets a connection for each of the first jobs.
  static TransportLimits limits() {
    TransportLimits l;
    l.initial_concurrency = 5;
    return l;
  }

  void recover() {
    for (int i = 0; i < 10000; ++i) {
      auto step = log_->restart().step(4096);
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
    for (const auto& a : to) e.recipients.push_back({.address = a, .original = {}, .orcpt = {}, .notify = notify_bits});
    const std::string body = "Subject: " + id + "\r\n\r\nbody of " + id + std::string(padding, '.') + "\r\n";
    e.body.size = body.size();
    e.discharges = std::move(discharges);
    e.filter = filter;
    e.transport = transport;
    e.hold = hold;
    e.priority = priority;
    e.tenant = tenant;
    if (later > seconds(0)) {
      e.release = e.arrival + later;
      e.release_request = "for;" + std::to_string(later.count());
    }
    if (e.discharges.empty()) e.purpose = purpose;
    if (e.discharges.empty()) e.verp = verp;
    outside_.wanted[id] = to;
    manager_->event()->new_mail.enqueue(std::move(e), permit, spool_file == 0 ? body : "", spool_file, 0,
                                        [this, id](ipc::enqueue::Outcome o, const std::string&) {
                                          last_ = o;
                                          active_at_answer = manager_->figures().active;
                                          if (o == ipc::enqueue::Outcome::ok) outside_.acknowledged.insert(id);
                                        },
                                        {});
  }

  /// So often the delivery program ends with the job that it has in hand, and comes back.
  void kill_delivery(int deaths) {
    for (int death = 1; death <= deaths; ++death) {
      BOOST_TEST_REQUIRE(in_hand.size() == 1U);
      const auto job = in_hand.front();
      in_hand.clear();
      manager_->event()->scheduler.transport_up("smtp", false);
      manager_->event()->jobs.survived_death(job.job);
      manager_->event()->jobs.connection_closed({.connection = job.connection,
                                                 .opened = true,
                                                 .trouble = ipc::delivery::Trouble::none,
                                                 .status = {},
                                                 .unstarted = {job.job}});
      run();
      manager_->event()->scheduler.transport_up("smtp", true);
      run();
    }
  }
  /// Everything that can happen without time passing.
  void run() {
    for (int i = 0; i < 10000; ++i) {
      manager_->settle();
      const bool moved = play();
      if (!commit() && !moved && work_.empty() && manager_->wake_at() > outside_.clock.now()) return;
    }
    BOOST_FAIL("the manager does not come to rest");
  }
  void advance(std::chrono::nanoseconds by) {
    outside_.clock.advance(by);
    log_->commits().flush();
    run();
  }

  bool commit() {
    auto batch = log_->commits().next_batch();
    if (!batch) return false;
    auto done = batch->execute(storage_);
    auto ticket = log_->commits().complete(std::move(*batch), done);
    BOOST_REQUIRE(ticket.has_value());
    manager_->committed();
    return true;
  }

  std::size_t listed() {
    log_->commits().flush();
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
    log_->commits().flush();
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

  /// How a recipient fares: by its local part: ok…, no… (fails), later… (deferred), hang… (stays in hand), ours… (a
  /// fault of the delivery program). True: some program had something to do.
  bool play() {
    const bool routed = play_router();
    const bool opened = play_hosts();
    const bool worked = play_agents();
    const bool reported = play_bounce();
    return routed || opened || worked || reported;
  }
  bool play_router() {
    const auto asked = std::exchange(routes_, {});
    for (const auto& [request, recipient] : asked) {
      ipc::route::Routed answer;
      answer.request = request;
      if (recipient.starts_with("nowhere"))
        answer.answer = ipc::route::Unroutable{mail::make_status(mail::Action::failed, "5.1.2", "no such domain")};
      else
        answer.answer = resolved(recipient);
      if (routers_answer) manager_->event()->routes.routed(answer);
    }
    return !asked.empty();
  }
  ipc::route::Resolved resolved(const std::string& recipient) const {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = recipient.substr(recipient.find('@') + 1);
    r.recipient = recipient;
    r.for_domain = routes_for_domains;
    ipc::Destination d;
    d.transport = "smtp";
    d.host = "mx." + r.nexthop;
    d.address = r.nexthop == "tar.example" ? "192.0.2.66" : "192.0.2.1";
    d.port = 25;
    r.levels.push_back({{d}});
    return r;
  }
  bool play_hosts() {
    if (hosts_silent) return false;
    const auto opening = std::exchange(opening_, {});
    for (const auto c : opening) {
      ipc::delivery::Features f;
      f.window = 5;
      if (hosts_answer) {
        manager_->event()->scheduler.opened(c, f);
      } else {
        manager_->event()->jobs.connection_closed(
            {.connection = c,
             .opened = false,
             .trouble = ipc::delivery::Trouble::refused,
             .status = mail::make_status(mail::Action::deferred, "4.4.1", "refused"),
             .unstarted = {}});
      }
    }
    return !opening.empty();
  }
  bool play_agents() {
    const auto jobs = std::exchange(work_, {});
    for (const auto& job : jobs) {
      if (job.recipients.front().recipient.address.starts_with("hang"))
        in_hand.push_back(job);
      else
        answer(job);
    }
    return !jobs.empty();
  }
  bool play_bounce() {
    const auto reports = std::exchange(reports_, {});
    for (const auto& n : reports) report(n);
    bool moved = !reports.empty();
    for (auto& a : std::exchange(waiting_answers_, {})) {
      if (outside_.acknowledged.contains(a.queue_id)) {
        manager_->event()->reports.notified(a);
        moved = true;
      } else {
        waiting_answers_.push_back(a);
      }
    }
    return moved;
  }
  /// The notice is sent; bounce answers once it is acknowledged.
  void report(const ipc::bounce::Notify& n) {
    if (!bounce_works) {
      manager_->event()->reports.notified({n.request, false, {}, "bounce is out of order"});
      return;
    }
    const char* const kinds[] = {"failure ", "delay ", "success ", "first try "};
    std::string text = kinds[static_cast<int>(n.kind)] + n.envelope.queue_id + ":";
    mail::Discharge d{n.envelope.queue_id, {}, static_cast<std::uint8_t>(n.kind)};
    for (const auto& r : n.recipients) {
      text += " " + r.recipient.address;
      d.ordinals.push_back(r.ordinal);
    }
    const std::string id = "N" + std::to_string(++outside_.next_notice) + n.envelope.queue_id;
    // As bounce does: a notice from the null sender, one about a notice from double_bounce_sender.
    const std::string sender = n.envelope.sender.empty() ? "double-bounce@mx.example" : "";
    last_ = ipc::enqueue::Outcome::ok;
    send(id, sender, {notice_goes_to}, {d}, n.permit);
    if (last_ != ipc::enqueue::Outcome::ok) {
      manager_->event()->reports.notified({n.request, false, {}, "it cannot be queued"});
      return;
    }
    outside_.notices.push_back(text);
    told.push_back(n);
    if (bounce_answers) waiting_answers_.push_back({n.request, true, id, {}});
  }
  void answer(const ipc::delivery::Job& job) {
    ipc::delivery::JobResult result;
    result.job = job.job;
    result.connection = job.connection;
    result.service_time = service_time;
    for (const auto& r : job.recipients) {
      const std::string& a = r.recipient.address;
      mail::DeliveryStatus status{mail::Action::delivered, "2.0.0", "250 ok", {}, {}};
      if (a.starts_with("no")) status = mail::make_status(mail::Action::failed, "5.1.1", "550 no such user");
      if (a.starts_with("later") && !all_well)
        status = mail::make_status(mail::Action::deferred, "4.2.1", "450 " + later_text);
      if (a.starts_with("ours")) {
        status = mail::make_status(mail::Action::deferred, "4.3.0", "our own fault");
        result.own_fault = true;
      }
      status.diagnostic = diagnostic;
      if (status.action == mail::Action::delivered && !mail::is_probe(job.purpose))
        ++outside_.delivered[job.queue_id + " " + a];
      result.results.push_back({{r.ordinal}, status});
    }
    bodies[job.queue_id] = job_bodies_[job.job];
    manager_->event()->jobs.result(result);
  }

  void settle_soon() override { ++settles_asked; }
  void route(const ipc::route::Route& r) override {
    ++routes_asked;
    ways_asked.push_back(std::string(r.transport));
    routes_.emplace_back(r.request, std::string(r.recipient));
  }
  void open_connection(const std::string&, const ipc::delivery::OpenConnection& o) override {
    opening_.push_back(o.connection);
  }
  void close_connection(const std::string&, ConnectionNumber) override {}
  void hand_job(const std::string&, ipc::delivery::Job& job, Fd) override {
    handed.push_back(job.queue_id);
    job_bodies_[job.job] = job.inline_body;
    job.inline_body = {};
    work_.push_back(job);
  }
  void probed(ipc::verify::Probed results) override { probed_results.push_back(std::move(results)); }
  void notify(const ipc::bounce::Notify& n, Fd) override {
    ipc::bounce::Notify copy = n;
    copy.inline_body = {};
    (bounce_waits ? reports_held : reports_).push_back(std::move(copy));
  }
  Result<Fd> open_body(std::uint64_t, const std::string&) override {
    if (!spool_opens) return fail_errno("open", EIO);
    return Fd();
  }
  void release_body(std::uint64_t, const std::string&) override {}
  void queue_state(bool a) override { states.push_back(a); }
  [[noreturn]] void fatal(const Error& why) override {
    BOOST_FAIL("fatal: " << why.message());
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
  std::vector<ipc::bounce::Notify> told;
  std::deque<ipc::bounce::Notified> waiting_answers_;
  std::map<JobNumber, std::string> job_bodies_;
  std::map<std::string, std::string> bodies;
  std::vector<bool> states;
  std::string diagnostic, later_text = "later", notice_goes_to = "ok-notice@local.example";
  // of what is sent
  std::vector<ipc::verify::Probed> probed_results;
  std::uint8_t notify_bits = 0;
  std::string filter, transport;
  bool hold = false;
  std::int8_t priority = 0;
  std::string tenant;
  seconds later{0};  // before when it is not to be sent
  mail::Purpose purpose = mail::Purpose::mail;
  std::string verp;
  std::uint64_t spool_file = 0;
  std::vector<std::string> ways_asked;  // the transports that routes were asked for
  std::vector<std::string> handed;      // the ids of the jobs, in the order in which they were handed out
  std::size_t routes_asked = 0, settles_asked = 0;
  bool routes_for_domains = false;
  std::size_t active_at_answer = 99;  // messages in the active set when the last answer came
  std::size_t padding = 0;            // bytes of a body beyond its few words
  bool hosts_silent = false;          // connections that are being opened stay so
  microseconds service_time{0};       // of every job
  bool spool_opens = true;
  bool routers_answer = true, hosts_answer = true, bounce_works = true, bounce_answers = true, all_well = false,
       bounce_waits = false;
};

struct Fixture {
  Outside outside;
  FaultStorage disk;
  std::unique_ptr<Qmgr> qmgr;
  std::uint32_t segment_size = 32768;
  Fixture() { start(); }
  void start(ManagerOptions options = {}, Options scheduler = {}) {
    qmgr.reset();
    qmgr = std::make_unique<Qmgr>(outside, disk, options, scheduler, segment_size);
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

}  // namespace pen::qmgr
