#pragma once
/// For tests of shaping in virtual time: receivers with limits that nobody tells, and mail of several senders to them.
///
/// Use:     Receivers world(Mode::yes); world.answer = …; world.offer("a.example", 50, 1); world.run(seconds(60));
///          then delivered, put_off, failed, told(), limit_of() say what came of it.
/// Parts:   Receivers: the hosts of the provider "big" and of others, which the scheduler sends to. Words of theirs. A
///          server of a cluster.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/random.h"
#include "lib/mail/stated_delay.h"
#include "lib/queue/shaping/rules_file.h"
#include "lib/queue/shaping/shared_rates.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {

using Mode = ShapingOptions::Mode;

inline constexpr std::string_view kRules = R"rules(
provider big .big.example
rule big-domain   provider=big dsn=4.7.28 text="dkim domain" class=rate scope=signing-domain
rule big-rate     provider=big dsn=4.7.28 class=rate scope=source
rule big-block    provider=big code=550 text="(s3150)" class=block scope=source pause=1h
rule big-customer provider=big code=550 text="(customer)" class=block scope=envelope-domain pause=1h
rule big-many     provider=big text="number of connections" class=connections scope=source
rule big-user     provider=big dsn=4.2.1 class=recipient scope=recipient pause=20m
rule big-unsigned provider=big dsn=5.7.26 class=configuration
)rules";

struct ClusterTable : destdb::MemoryTable {
  bool clustered = false;
  shaping::SharedRates rates{{}};
  shaping::SharedRates* shared_rates() override { return clustered ? &rates : nullptr; }
};

/// A receiver's answer; empty: delivered.
using Answer = std::function<std::string(const std::string& host, const std::string& domain, SteadyTime now)>;

class Receivers {
 public:
  ShapingOptions shaping;
  TransportLimits limits;
  Options options;
  Answer answer = [](auto&&...) { return std::string(); };
  std::string refuses_to_talk;  // each connection, with these words
  std::uint32_t connections_borne = 1'000'000;
  std::vector<std::string> hosts{"mx1.big.example", "mx2.big.example"};
  ClusterTable table;
  milliseconds service{100}, leaves{0};

  std::map<std::string, std::uint64_t> delivered, put_off, failed;  // by sender's domain
  std::uint64_t refusals = 0, ticks = 0, offered = 0;
  std::uint32_t most_connections = 0;
  std::map<std::string, SteadyTime> last_delivery;
  std::vector<std::string> news, reasons;
  seconds blocked{0};                          // a source, for the longest time
  bool keeps_offering = false;                 // a sender whose mail is done comes again
  std::map<std::string, std::string> tenants;  // by sender's domain, which is a tenant of its own else
  std::map<std::string, Urgency> urgency;      // by sender's domain
  std::map<std::string, std::string> signers;  // by sender's domain: another one that signs it

  explicit Receivers(Mode mode) {
    shaping.mode = mode;
    BOOST_REQUIRE(shaping::read_rules(kRules, "rules", shaping.rules));
  }
  Scheduler& core() {
    if (!core_) {
      options.shaping = std::make_shared<const ShapingOptions>(shaping);
      core_ = std::make_unique<Scheduler>(options, [this](std::string_view) { return limits; }, table, random_);
    }
    core_->set_time(now_, wall());
    return *core_;
  }
  void restart() { core_.reset(), connections_.clear(), messages_.clear(), events_.clear(); }
  void offer(const std::string& domain, std::size_t count, SourceNumber source = 0, std::string to = "m.example") {
    for (std::size_t i = 0; i < count; ++i) {
      const MessageNumber n = ++offered;
      messages_[n] = {domain, to, source, now_};
      begin(n);
    }
  }
  void run(seconds time) { run_for(time); }
  void run_for(milliseconds time) {
    const SteadyTime end = now_ + time;
    for (;;) {
      carry_out();
      SteadyTime next = core().next_wake();
      const bool tick = events_.empty() || next <= events_.begin()->first;
      if (!tick) next = events_.begin()->first;
      if (next > end) break;
      now_ = std::max(now_, next);
      if (tick) {
        ++ticks;
        core().tick();
      } else {
        auto what = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        what();
      }
    }
    now_ = end;
    core();
  }
  std::string limit_of(const std::string& group, const std::string& domain = {}) {
    std::string found = "none";
    core().each_limit([&](const LimitState& s) {
      if (s.group == group && s.domain == domain && s.rate.limits()) found = shaping::to_string(s.rate);
    });
    return found;
  }
  SteadyTime now() const { return now_; }
  WallTime wall() const {
    return WallTime(std::chrono::duration_cast<microseconds>(now_.time_since_epoch()) + seconds(1'800'000'000));
  }
  seconds rests(const std::string& group, const std::string& domain = {}) {
    seconds found{0};
    core().each_limit([&](const LimitState& s) {
      if (s.group == group && s.domain == domain) found = std::chrono::round<seconds>(s.held);
    });
    return found;
  }
  bool told(std::string_view words) const {
    return std::ranges::any_of(news, [&](const auto& n) { return n.contains(words); });
  }

 private:
  struct Message {
    std::string domain, to;
    SourceNumber source = 0;
    SteadyTime arrived{};
  };
  struct Connection {
    std::string host;
    SteadyTime busy_until{};
    bool leaving = false;
  };

  void at(SteadyTime when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  void begin(MessageNumber n) {
    const std::string& domain = messages_.at(n).domain;
    const auto tenant = tenants.find(domain);
    core().admit(n, {0}, messages_.at(n).source, tenant == tenants.end() ? domain : tenant->second, domain,
                 urgency.contains(domain) ? urgency.at(domain) : Urgency::normal,
                 signers.contains(domain) ? std::string_view(signers.at(domain)) : std::string_view());
    carry_out();
  }
  void ended(MessageNumber n, bool again, seconds wait = seconds(0)) {
    core().forget(n);
    if (again)
      at(now_ + wait, [this, n] { begin(n); });
    else
      messages_.erase(n);
  }
  /// As qmgr has it: the message's age, within the bounds, or what was stated.
  void deferred(MessageNumber n, const mail::DeliveryStatus& status) {
    const Message& m = messages_.at(n);
    ++put_off[m.domain];
    if (reasons.size() < 1000) reasons.push_back(status.text);
    const auto age = std::chrono::duration_cast<seconds>(now_ - m.arrived);
    const auto usual = std::clamp(age, seconds(300), seconds(4000));
    const auto wait =
        std::clamp(mail::stated_delay(status).value_or(usual),
                   scheduler::was_put_off(status) ? seconds(300) : std::max(seconds(300), usual / 4), seconds(4000));
    // As the queue log has it: the next of a few intervals.
    for (const int s : {300, 600, 1200, 2400, 4000})
      if (seconds(s) >= wait) return ended(n, true, seconds(s));
  }
  void carry_out() {
    for (;;) {
      for (auto& n : core().take_shaping_news()) news.push_back((n.warning ? "warning: " : "") + n.text);
      const auto actions = core().take_actions();
      if (actions.empty()) return;
      for (const auto& a : actions) std::visit([this](const auto& x) { act(x); }, a);
    }
  }
  void act(const RouteRecipient& a) {
    const Message& m = messages_.at(a.message);
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = m.to;
    r.recipient = "user@" + m.to;
    ipc::route::Level level;
    for (const auto& h : m.to == "small.example" ? std::vector<std::string>{"mx.small.example"} : hosts) {
      ipc::Destination d;
      d.transport = "smtp";
      d.host = h;
      d.address = "192.0.2." + std::to_string(h.starts_with("mx.") ? 100 : 1 + level.destinations.size());
      d.port = 25;
      level.destinations.push_back(d);
    }
    r.levels.push_back(level);
    r.valid_for = seconds(3600);
    core().routed(a.message, a.ordinal, r);
  }
  void act(const OpenConnection& a) {
    connections_[a.connection] = {a.destination.host, {}};
    // A connection that is asked to end sees that before the next one comes, unless it has work.
    const auto count = static_cast<std::uint32_t>(std::ranges::count_if(
        connections_, [this](const auto& c) { return !c.second.leaving || c.second.busy_until > now_ - leaves; }));
    const bool refused = count > connections_borne;
    if (!refused) most_connections = std::max(most_connections, count);
    at(now_ + milliseconds(50), [this, number = a.connection, refused] {
      const std::string words = refused ? "421 4.7.0 too large a number of connections" : refuses_to_talk;
      if (words.empty()) {
        core().opened(number, {});
        return;
      }
      connections_.erase(number);
      ++refusals;
      const auto trouble =
          words[0] == '5' ? ipc::delivery::Trouble::greeting_5xx : ipc::delivery::Trouble::greeting_4xx;
      core().closed(number, false, trouble, said(words, mail::Action::deferred), {});
    });
  }
  static mail::DeliveryStatus said(const std::string& words, mail::Action action) {
    return {action, words.substr(4, 5), "host said: " + words, "smtp; " + words, "mx.big.example"};
  }
  void act(const HandJob& a) {
    Connection& c = connections_.at(a.connection);
    c.busy_until = std::max(c.busy_until, now_) + service;
    at(c.busy_until, [this, a, host = c.host] { done(a, host); });
  }
  void done(const HandJob& a, const std::string& host) {
    const std::string domain = messages_.at(a.message).domain, to = messages_.at(a.message).to;
    const std::string words = answer(host, domain, now_);
    if (words.empty()) {
      ++delivered[domain];
      last_delivery[domain] = now_;
      core().job_done(a.job, service, JobEnd::served);
      const SourceNumber source = messages_.at(a.message).source;
      ended(a.message, false);
      if (keeps_offering) offer(domain, 1, source, to);
      return;
    }
    ++refusals;
    auto status = said(words, words[0] == '5' ? mail::Action::failed : mail::Action::deferred);
    const std::string recipient = "user@" + to;
    const ComplaintVerdict verdict = core().complained(a.job, {.recipient = recipient}, status);
    blocked = std::max(blocked, verdict.blocked);
    core().job_done(a.job, service, words[0] == '5' ? JobEnd::served : JobEnd::put_off);
    if (words[0] != '5' || verdict.put_off) return deferred(a.message, status);
    ++failed[domain];
    ended(a.message, false);
  }
  void act(const CloseConnection& a) {
    connections_.at(a.connection).leaving = true;
    // When what is in hand is done.
    at(std::max(now_, connections_.at(a.connection).busy_until) + leaves, [this, number = a.connection] {
      connections_.erase(number);
      core().closed(number, true, ipc::delivery::Trouble::none, {}, {});
    });
  }
  void act(const DeferRecipients& a) { deferred(a.message, a.status); }

  Random random_{11};
  SteadyTime now_{seconds(100'000)};
  std::unique_ptr<Scheduler> core_;
  std::multimap<SteadyTime, std::function<void()>> events_;
  std::map<ConnectionNumber, Connection> connections_;
  std::map<MessageNumber, Message> messages_;
};

inline constexpr const char* kTooMuch = "421 4.7.28 an unusual rate of mail from your IP address";
inline constexpr const char* kTooMuchOfDomain = "421 4.7.28 an unusual rate of mail from your DKIM domain";

/// A server that grants whatever is asked for, at once.
inline void run_with_server(Receivers& world, seconds time) {
  for (milliseconds t{0}; t < time; t += milliseconds(100)) {
    world.run_for(milliseconds(100));
    for (const auto& request : world.table.rates.take_requests()) {
      if (const auto* ask = std::get_if<shaping::SharedRates::Ask>(&request))
        world.table.rates.answered(
            ask->id, {.granted = ask->wanted, .wait = {}, .version = ask->version, .learned = {}, .age = {}});
      else if (const auto* tell = std::get_if<shaping::SharedRates::Tell>(&request))
        world.table.rates.told(tell->id, 1, true);
    }
    for (const auto& effect : world.table.rates.take_effects())
      if (const auto* ready = std::get_if<shaping::SharedRates::Ready>(&effect)) world.core().rate_ready(ready->key);
  }
}

}  // namespace pen::qmgr
