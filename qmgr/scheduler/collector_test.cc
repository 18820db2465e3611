/// The scheduler over the destination database with its collector at work: what it forgets is forgotten here too.
#include <boost/test/unit_test.hpp>

#include <map>

#include "lib/queue/destdb/destdb.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

/// Holds nothing: the working set is what is looked at.
class NoFile final : public destdb::File {
 public:
  Result<destdb::Contents> load() override { return destdb::Contents{}; }
  Result<void> write(const std::vector<destdb::Change>&) override { return {}; }
};

/// Two hosts of one preference. The first connection to one of them is refused; from then on both work.
class Days {
 public:
  Days() : db_(*destdb::DestDb::over(std::make_shared<NoFile>(), wall())), random_(1) {
    scheduler_.emplace(Options{}, [](std::string_view) { return TransportLimits{}; }, *db_, random_);
  }
  /// A message; an hour later its connection is long closed.
  void message() {
    const MessageNumber n = ++message_;
    scheduler_->set_time(now_, wall());
    scheduler_->admit(n, {0});
    carry_out();
    for (const auto end = now_ + std::chrono::hours(1); now_ < end;) {
      now_ += std::chrono::minutes(1);
      scheduler_->set_time(now_, wall());
      scheduler_->tick();
      carry_out();
    }
  }
  /// As qmgr does (program.cc), a whole round.
  void collect() {
    for (const auto& key : db_->collect_some(wall(), db_->places())) scheduler_->forgotten(key);
    carry_out();
  }
  std::size_t taken_by(const std::string& host) { return taken_[host]; }
  std::string refused;

 private:
  WallTime wall() const {
    return WallTime(std::chrono::duration_cast<microseconds>(now_.time_since_epoch()) + seconds(1'800'000'000));
  }
  void carry_out() {
    for (;;) {
      const auto actions = scheduler_->take_actions();
      if (actions.empty()) return;
      for (const auto& a : actions) std::visit([this](const auto& x) { act(x); }, a);
    }
  }
  void act(const RouteRecipient& a) {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "a.example";
    r.recipient = "u@a.example";
    r.valid_for = seconds(86'400);
    auto& level = r.levels.emplace_back();
    for (const char* host : {"mx1", "mx2"}) {
      ipc::Destination d;
      d.transport = "smtp";
      d.host = host;
      d.address = host == std::string("mx1") ? "192.0.2.1" : "192.0.2.2";
      d.port = 25;
      level.destinations.push_back(d);
    }
    scheduler_->routed(a.message, a.ordinal, r);
  }
  void act(const OpenConnection& a) {
    host_[a.connection] = a.destination.host;
    if (refused.empty()) {
      refused = a.destination.host;
      scheduler_->closed(a.connection, false, ipc::delivery::Trouble::refused,
                         mail::make_status(mail::Action::deferred, "4.4.1", "refused"), {});
    } else {
      scheduler_->opened(a.connection, {});
    }
  }
  void act(const HandJob& a) {
    ++taken_[host_[a.connection]];
    scheduler_->job_done(a.job, milliseconds(1), JobEnd::served);
    scheduler_->forget(a.message);
  }
  void act(const CloseConnection& a) { host_.erase(a.connection); }
  void act(const DeferRecipients& a) { BOOST_FAIL("deferred: " << a.status.text); }

  SteadyTime now_{seconds(1000)};
  std::unique_ptr<destdb::DestDb> db_;
  Random random_;
  std::optional<Scheduler> scheduler_;
  MessageNumber message_ = 0;
  std::map<ConnectionNumber, std::string> host_;
  std::map<std::string, std::size_t> taken_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_that_failed_once_gets_its_share_when_its_record_was_collected) {
  Days days;
  for (int hour = 0; hour < 24; ++hour) days.message();
  BOOST_TEST(days.taken_by(days.refused) == 0U);  // the retry list comes last
  for (int hour = 24; hour < 240; ++hour) {
    days.message();
    days.collect();
  }
  BOOST_TEST(days.taken_by(days.refused) > 80U);
  BOOST_TEST(days.taken_by(days.refused == "mx1" ? "mx2" : "mx1") > 80U);
}

}  // namespace pen::qmgr
