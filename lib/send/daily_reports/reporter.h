#pragma once
/// Sends what has gathered for a day to the domains that want it, and keeps what has gathered on the disk.
///
/// Use:     class TlsReports : public Reporter<DomainDay> { … who_wants(), message(), post() … };
///          reporter->start();                        // from then on: what is due goes, changes are written
///          co_await reporter->send_due(true);        // all that there is, the current day too
///          co_await reporter->write_changes();       // at the end
/// Time:    changes are written every kWriteEach, and no faster than kWriteRate; a report that could not be handed over
///          is tried again every kRetryEach, for a day.
/// Bounds:  kAtOnce reports are looked up, queued and posted at a time.
/// Thread:  the loop's. What `tools` refers to outlives the reporter, and the reporter its tasks.
#include <algorithm>
#include <map>
#include <memory>
#include <variant>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/receive/intake/derived.h"
#include "lib/send/daily_reports/days.h"
#include "lib/send/daily_reports/store.h"
#include "lib/send/daily_reports/submitter.h"

namespace pen::daily_reports {

struct Wanted {
  bool known = false;  // no: DNS has not answered; it is worth another try
  std::vector<Target> targets;
};

struct Tools {
  async::Loop& loop;
  async::HandlerPool& pool;
  intake::Intake& intake;
  async::Cancel& draining;
};

template <class Day>
class Reporter {
 public:
  /// name: "TLS report", for the log. sender: of the messages.
  Reporter(Tools tools, std::string name, std::string sender, std::string_view host, std::shared_ptr<Store<Day>> store)
      : tools_(tools),
        name_(std::move(name)),
        sender_(std::move(sender)),
        days_(seed_of(host)),
        store_(std::move(store)),
        room_(tools.loop, kAtOnce) {}
  virtual ~Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// What was kept counts again. What cannot be read is logged.
  void restore() {
    if (!store_->warning().empty()) log::warning("{}", store_->warning());
    auto stored = store_->load();
    if (!stored) return log::warning("what had gathered cannot be read: {}", stored.error().message());
    std::size_t left_out = 0;
    for (auto& day : *stored) left_out += days_.restore(std::move(day)) ? 0 : 1;
    if (left_out > 0) log::warning("{} days of domains are dropped without a report: there is no room", left_out);
  }
  void start() {
    tools_.loop.spawn("store", keep_written(this));
    tools_.loop.spawn("reports", keep_reporting(this));
  }
  Days<Day>& days() { return days_; }
  const Days<Day>& days() const { return days_; }

  /// Sends what is due; all: everything that has gathered. Returns how many targets took a report.
  async::Task<std::uint64_t> send_due(bool all);
  /// Returns about how many bytes were written.
  async::Task<std::size_t> write_changes();
  std::string counts() const;

 protected:
  virtual async::Task<Wanted> who_wants(std::string domain) = 0;
  /// The whole message to one address, in stored form (CRLF).
  virtual std::string message(const Day& day, const Target& target) = 0;
  /// Whether anybody is to hear of the day; false: it is not wanted.
  virtual bool worth(const Day&) const { return true; }
  /// Hands the report to a URL; called in the pool. Errors are for people.
  virtual Result<void> post(const Day& day, const std::string& url) = 0;

 private:
  static constexpr seconds kWriteEach{5};  // what a kill may cost, and more where much is written
  // A day is written as a whole: one more message for each of many large ones must not keep the disk busy.
  static constexpr std::size_t kWriteRate = std::size_t{1} << 20;  // bytes in a second
  static constexpr seconds kLookEach{60};                          // for reports whose time has come
  static constexpr seconds kRetryEach{900};                        // RFC 8460 section 5.5
  static constexpr std::size_t kAtOnce = 8;
  struct Round {
    explicit Round(async::Loop& loop) : gate(loop) {}
    std::uint64_t sent = 0;
    async::Gate gate;  // last: its tasks die first
  };

  static async::Task<void> keep_written(Reporter* self);
  static async::Task<void> keep_reporting(Reporter* self);
  static async::Task<void> one_of(Reporter* self, Round* round, std::int64_t day, std::string domain, bool now);
  async::Task<std::uint64_t> report(std::int64_t number, std::string domain, bool now);
  async::Task<std::uint64_t> hand_over(const Day* day, std::vector<Target> targets, bool* all);
  async::Task<bool> mail(const Day* day, Target target);
  async::Task<bool> hand_to_url(const Day* day, std::string url);

  Tools tools_;
  std::string name_, sender_;
  Days<Day> days_;
  std::shared_ptr<Store<Day>> store_;
  async::Semaphore room_;
  // Days being reported (kNever), and those that are tried again, and when.
  std::map<std::pair<std::int64_t, std::string>, SteadyTime> in_hand_;
  std::uint64_t mailed_ = 0, posted_ = 0, not_wanted_ = 0, failed_ = 0;
};

/// Errors are logged: what has gathered is still in memory, and changes again soon.
template <class Day>
async::Task<std::size_t> Reporter<Day>::write_changes() {
  auto changes = days_.take_changes();
  if (changes.empty()) co_return 0;
  std::size_t bytes = 0;
  for (const auto& change : changes) bytes += change.value ? change.value->bytes : 0;
  auto work = [store = store_, changes = std::move(changes)] { return store->write(changes); };
  const auto written = co_await tools_.pool.run(std::move(work));
  if (!written) log::warning("what has gathered is not on disk: {}", written.error().message());
  co_return bytes;
}

template <class Day>
async::Task<void> Reporter<Day>::keep_written(Reporter* self) {
  seconds pause = kWriteEach;
  while (co_await self->tools_.loop.sleep(pause, {.deadline = kNever, .cancel = &self->tools_.draining}))
    pause = kWriteEach + seconds(co_await self->write_changes() / kWriteRate);
}

template <class Day>
async::Task<void> Reporter<Day>::keep_reporting(Reporter* self) {
  do {
    co_await self->send_due(false);
  } while (co_await self->tools_.loop.sleep(kLookEach, {.deadline = kNever, .cancel = &self->tools_.draining}));
}

/// Queues one report. False: it could not be, and is worth another try.
template <class Day>
async::Task<bool> Reporter<Day>::mail(const Day* day, Target target) {
  intake::Derived derived;
  derived.envelope.sender = sender_;
  derived.envelope.client.protocol = "local";
  derived.envelope.recipients.push_back(
      {.address = target.value, .original = {}, .orcpt = {}, .notify = mail::notify::kNever});
  derived.before = message(*day, target);
  const async::Until until{.deadline = tools_.loop.now() + tools_.intake.settings.enqueue_timeout};
  auto queue_id = co_await intake::enqueue_derived(tools_.intake, std::move(derived), until);
  if (!queue_id) {
    log::warning("cannot queue the {} for {}: {}", name_, day->domain, queue_id.error().message());
    co_return false;
  }
  ++mailed_;
  log::info("{}: {} for {} to {}", *queue_id, name_, day->domain, target.value);
  co_return true;
}

template <class Day>
async::Task<bool> Reporter<Day>::hand_to_url(const Day* day, std::string url) {
  auto work = [this, day, url] { return post(*day, url); };
  const auto posted = co_await tools_.pool.run(std::move(work));
  if (!posted) {
    log::warning("{} for {} to {}: {}", name_, day->domain, url, printable(posted.error().message(), 300));
    co_return false;
  }
  ++posted_;
  log::info("{} for {} posted to {}", name_, day->domain, url);
  co_return true;
}

/// Hands the day to everyone who wants it and has not got it. Returns how many took it; `all`: whether everyone has
/// it now.
template <class Day>
async::Task<std::uint64_t> Reporter<Day>::hand_over(const Day* day, std::vector<Target> targets, bool* all) {
  std::uint64_t sent = 0;
  *all = true;
  for (const Target& target : targets) {
    if (std::ranges::find(day->reached, target.value) != day->reached.end()) continue;
    const bool taken =
        target.kind == Target::Kind::mail ? co_await mail(day, target) : co_await hand_to_url(day, target.value);
    if (taken) days_.note_reached(day->day, day->domain, target.value);
    sent += taken ? 1 : 0;
    *all = *all && taken;
  }
  co_return sent;
}

/// One domain's day: finds those who want a report and sends it. now: even if it was tried a while ago. Returns how
/// many took it.
template <class Day>
async::Task<std::uint64_t> Reporter<Day>::report(std::int64_t number, std::string domain, bool now) {
  const auto key = std::pair(number, domain);
  const auto [at, mine] = in_hand_.try_emplace(key, kNever);
  if (!mine && (at->second == kNever || (!now && at->second > tools_.loop.now()))) co_return 0;
  at->second = kNever;  // nobody else takes it meanwhile
  Wanted wanted{.known = true, .targets = {}};
  if (const Day* day = days_.find(number, domain); day != nullptr && worth(*day)) wanted = co_await who_wants(domain);
  std::uint64_t sent = 0;
  bool all = wanted.known;
  const Day* known = days_.find(number, domain);
  if (known != nullptr && all) {
    if (wanted.targets.empty()) ++not_wanted_;
    const Day day = *known;  // a copy: what is gathered may change while it is handed over
    sent = co_await hand_over(&day, std::move(wanted.targets), &all);
    const WallTime last_try = days_.send_time(number, domain) + std::chrono::days(1);
    if (!all && tools_.loop.clock().wall_now() > last_try) {
      log::warning("{} for {} could not be handed over for a day and is dropped", name_, domain);
      all = true;
    }
  }
  if (all) {
    days_.remove(number, domain);
    in_hand_.erase(key);
  } else {
    ++failed_;
    in_hand_[key] = tools_.loop.now() + kRetryEach;
  }
  co_return sent;
}

template <class Day>
async::Task<void> Reporter<Day>::one_of(Reporter* self, Round* round, std::int64_t day, std::string domain, bool now) {
  round->sent += co_await self->report(day, std::move(domain), now);
  self->room_.release();
}

template <class Day>
async::Task<std::uint64_t> Reporter<Day>::send_due(bool all) {
  Round round(tools_.loop);
  const WallTime now = tools_.loop.clock().wall_now();
  std::erase_if(in_hand_, [&](const auto& one) {
    return days_.find(one.first.first, one.first.second) == nullptr && one.second != kNever;
  });
  if (const std::size_t old = days_.drop_old(now); old > 0)
    log::warning("{} days of {}s could not be sent and are dropped", old, name_);
  for (const auto& [day, domain] : days_.due(now, all)) {
    if (!co_await room_.acquire({.deadline = kNever, .cancel = &tools_.draining})) break;
    round.gate.spawn("report " + domain, one_of(this, &round, day, domain, all));
  }
  (void)co_await round.gate.drained({});
  (void)co_await write_changes();
  co_return round.sent;
}

template <class Day>
std::string Reporter<Day>::counts() const {
  return "reports: mailed " + std::to_string(mailed_) + ", posted " + std::to_string(posted_) + ", not wanted " +
         std::to_string(not_wanted_) + ", to be tried again " + std::to_string(failed_);
}

/// Serves one client of a conversation: its messages are given to `take`; Send has everything sent that has gathered,
/// and is answered with Sent.
template <class Item, class Send, class Sent, class Owner, class Channel, class Take>
async::Task<Result<void>> gather(std::shared_ptr<Owner> owner, Channel channel, Take take) {
  constexpr seconds kPatience{30};  // for a client that does not read its answer
  for (;;) {
    PEN_CO_TRY_ASSIGN(auto received, co_await channel.receive({.cancel = &owner->draining}));
    if (auto* item = std::get_if<Item>(&received.message)) {
      take(*owner, *item);
      continue;
    }
    Sent sent;
    sent.request = std::get<Send>(received.message).request;
    sent.reports = co_await owner->reports.send_due(true);
    PEN_CO_TRY(channel.send(sent));
    PEN_CO_TRY(co_await channel.flush({.deadline = owner->loop.now() + kPatience}));
  }
}

}  // namespace pen::daily_reports
