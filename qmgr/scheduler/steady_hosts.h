#pragma once
/// A small world in virtual time for tests of turns: hosts that take so long for each job, and mail that comes.
///
/// Use:     World w;  w.options.… = …;  w.flood("a", 10'000, …);  w.run_for(seconds(5));  BOOST_TEST(w.finished["a"] …)
/// Rules:   what is counted goes by the name that mail has: its tenant, where there are tenants.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <unordered_map>

#include "lib/base/random.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::steady_hosts {

constexpr std::size_t kActive = 5'000;  // of one tenant at once: what is beyond waits on the disk

struct World {
  destdb::MemoryTable table;
  Random random{1};
  Options options;
  TransportLimits limits;
  std::optional<Scheduler> core;
  std::map<std::string, milliseconds> hosts;  // what a job takes there; others: 100 ms
  std::function<void(const std::string& tenant)> when_done;

  struct Message {
    std::string tenant, host;
    std::size_t left = 0;
    SteadyTime arrived{};
  };
  struct Event {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };
  struct Line {
    std::string host;
    SteadyTime free{};
  };
  SteadyTime now{seconds(1000)};
  std::priority_queue<Event> events;
  std::uint64_t order = 0;
  std::unordered_map<MessageNumber, Message> messages;
  std::unordered_map<ConnectionNumber, Line> lines;
  MessageNumber next = 1;
  std::size_t ended = 0;
  std::map<std::string, std::size_t> delivered, finished;  // recipients, messages
  std::map<std::string, milliseconds> slowest;
  std::vector<Action> actions;

  World() {
    options.tenants = true;
    options.fairness.scale_max_concurrency = 10;
    limits.workers = 100;
    limits.destination_concurrency = 20;
  }
  void begin() {
    if (core) return;
    core.emplace(options, [this](std::string_view) { return limits; }, table, random);
    core->set_time(now, wall());
  }
  WallTime wall() const {
    return WallTime(std::chrono::duration_cast<microseconds>(now.time_since_epoch()) + seconds(1'800'000'000));
  }
  void at(SteadyTime when, std::function<void()> act) { events.push({when, ++order, std::move(act)}); }

  MessageNumber arrive(const std::string& tenant, const std::string& host, SourceNumber source = 0,
                       std::uint32_t recipients = 1, Urgency urgency = Urgency::normal) {
    begin();
    const MessageNumber number = next++;
    messages[number] = {tenant, host, recipients, now};
    Ordinals all;
    for (std::uint32_t i = 0; i < recipients; ++i) all.push_back(i);
    core->admit(number, all, source, options.tenants ? tenant : std::string(), {}, urgency);
    return number;
  }
  void collect() {
    for (core->take_actions(actions); !actions.empty(); core->take_actions(actions))
      for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
  }
  void act(RouteRecipient& r) {
    if (look_ups_wait) {
      look_ups.push_back(r);
      return;
    }
    const std::string& host = messages.at(r.message).host;
    ipc::route::Resolved answer;
    answer.transport = "smtp";
    answer.nexthop = host;
    answer.recipient = "user@" + host;
    ipc::Destination d;
    d.transport = "smtp";
    d.host = "mx." + host;
    answer.levels.push_back({{d}});
    answer.valid_for = seconds(100'000);
    core->routed(r.message, r.ordinal, answer);
  }
  bool look_ups_wait = false;
  std::deque<RouteRecipient> look_ups;
  void act(OpenConnection& o) {
    lines[o.connection] = {o.nexthop, now};
    at(now + milliseconds(1), [this, c = o.connection] {
      if (lines.contains(c)) core->opened(c, {});
    });
  }
  void act(HandJob& h) {
    Line& line = lines.at(h.connection);
    const auto takes = hosts.contains(line.host) ? hosts.at(line.host) : milliseconds(100);
    line.free = std::max(line.free, now) + takes;
    at(line.free, [this, h, takes] { done(h, takes); });
  }
  void done(const HandJob& h, milliseconds took) {
    Message& m = messages.at(h.message);
    core->job_done(h.job, took, JobEnd::served);
    delivered[m.tenant] += h.ordinals.size();
    m.left -= h.ordinals.size();
    if (m.left > 0) return;
    ++ended;
    const auto delay = std::chrono::duration_cast<milliseconds>(now - m.arrived);
    slowest[m.tenant] = std::max(slowest[m.tenant], delay);
    const std::string tenant = m.tenant;
    ++finished[tenant];
    messages.erase(h.message);
    core->forget(h.message);
    if (when_done) when_done(tenant);
  }
  void act(CloseConnection& c) {
    // After the jobs in hand.
    at(std::max(lines.at(c.connection).free, now), [this, number = c.connection] {
      lines.erase(number);
      core->closed(number, true, ipc::delivery::Trouble::none, {}, {});
    });
  }
  void act(DeferRecipients& d) {
    BOOST_REQUIRE_MESSAGE(d.withdrawn, "deferred: " << d.status.text);
    take_away(d.message, d.ordinals.size());
  }
  void take_away(MessageNumber number, std::size_t recipients) {
    Message& m = messages.at(number);
    m.left -= recipients;
    if (m.left > 0) return;
    ++ended;
    messages.erase(number);
    core->forget(number);
  }

  void run(SteadyTime until) {
    begin();
    for (;;) {
      collect();
      const SteadyTime wake = core->next_wake();
      const SteadyTime soonest = events.empty() ? wake : std::min(wake, events.top().at);
      if (soonest > until) break;
      now = std::max(now, soonest);
      core->set_time(now, wall());
      if (!events.empty() && events.top().at <= now) {
        auto act = events.top().act;
        events.pop();
        act();
      } else {
        core->tick();
      }
    }
    now = std::max(now, until);
    core->set_time(now, wall());
  }
  void run_for(milliseconds time) { run(now + time); }
  /// Until nothing is left.
  void finish() {
    while (!messages.empty()) {
      const auto before = ended;
      run_for(seconds(60));
      BOOST_REQUIRE_MESSAGE(ended > before, messages.size() << " messages wait for nothing");
    }
  }
  /// Keeps this many of the tenant's messages here, each of another sender, until so many have come.
  void flood(const std::string& tenant, std::size_t count, std::function<std::string(std::size_t)> host,
             std::uint32_t recipients = 1, Urgency urgency = Urgency::normal) {
    const auto left = std::make_shared<std::size_t>(count);
    const auto more = [this, tenant, left, host, recipients, urgency] {
      if (*left == 0) return;
      --*left;
      arrive(tenant, host(*left), (std::uint64_t{*left} << 1U) | 1U, recipients, urgency);
    };
    for (std::size_t i = 0; i < std::min(count, kActive); ++i) more();
    const auto before = when_done;
    when_done = [before, more, tenant](const std::string& whose) {
      if (whose == tenant) more();
      if (before) before(whose);
    };
  }
  void trickle(const std::string& tenant, const std::string& host, milliseconds each, std::size_t count,
               Urgency urgency = Urgency::normal) {
    if (count == 0) return;
    arrive(tenant, host, 3, 1, urgency);
    at(now + each, [=, this] { trickle(tenant, host, each, count - 1, urgency); });
  }
};

}  // namespace pen::qmgr::steady_hosts
