/// How soon a burst is through, by peers that take their time at any reply: beside what the limits allow, and beside a model
/// of Postfix with the same limits. In virtual time.
///
/// A connection costs a round trip, the greeting, another and the reply to EHLO. A connection's messages are served one after
/// another, as servers do: what is sent ahead saves round trips and nothing else.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <queue>

#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

using std::chrono::duration_cast;

struct Peer {
  microseconds trip{100};  // round trip
  microseconds greeting{1000}, ehlo{1000}, mail{0}, rcpt{0}, end_of_data{0};
  std::uint32_t window = 32;  // of a path of up to 20 ms; 1: neither PIPELINING nor CHUNKING
  microseconds setup() const { return 2 * trip + greeting + ehlo; }
  microseconds work() const { return mail + rcpt + end_of_data; }
  /// Of a message alone on a connection.
  microseconds alone() const { return work() + trip * (window > 1 ? 1 : 4); }
  /// From one message to the next when as many are sent ahead as it takes.
  microseconds each() const { return window > 1 ? std::max(work(), alone() / at_once()) : alone(); }
  /// What the delivery program takes at once (smtp/engine.cc).
  std::uint32_t at_once() const {
    if (window == 1) return 2;  // the next one lies ready
    return window * static_cast<std::uint32_t>(
                        std::clamp<std::int64_t>((trip + ehlo) / milliseconds(20), 1, 8));
  }
};

struct Burst {
  std::vector<Peer> hosts;
  std::uint32_t messages = 1000;
  std::uint32_t concurrency = 20;  // connections to one host
  std::uint32_t initial = 5;
  bool known = false;  // the hosts have taken mail from us before
  std::uint64_t seed = 1;
};

/// The burst through the real scheduler.
class Run {
 public:
  explicit Run(const Burst& burst)
      : burst_(burst), random_(burst.seed), scheduler_(options(), limits(), table_, random_) {}

  /// Until the last message is delivered. Calls each(time) at every delivery.
  microseconds time() {
    if (burst_.known) {
      // One message to each host, and the connections are closed again.
      for (std::size_t h = 0; h < burst_.hosts.size(); ++h) {
        one_ = h;
        arrive(2 * burst_.concurrency + burst_.initial);
        run();
      }
      one_.reset();
      now_ += seconds(10);
      tell([&] { scheduler_.tick(); });
      opened_ = 0;
    }
    const SteadyTime begin = now_;
    arrive(burst_.messages);
    run();
    return duration_cast<microseconds>(last_ - begin);
  }
  std::uint64_t opened() const { return opened_; }

 private:
  struct Live {
    std::size_t host = 0;
    std::deque<std::pair<HandJob, SteadyTime>> in_hand;
    SteadyTime last{};
    bool serving = false;
    bool closing = false;
  };
  static Options options() {
    Options o;
    o.fairness.scale_max_concurrency = 10;
    return o;
  }
  std::function<TransportLimits(std::string_view)> limits() const {
    return [this](std::string_view) {
      TransportLimits l;
      l.workers = 2000;
      l.destination_concurrency = burst_.concurrency;
      l.initial_concurrency = burst_.initial;
      l.max_age = std::chrono::hours(1000);
      return l;
    };
  }
  void arrive(std::uint32_t messages) {
    left_ = messages;
    for (std::uint32_t i = 0; i < messages; ++i) {
      const MessageNumber n = ++message_;
      tell([&] { scheduler_.admit(n, {0}); });
    }
  }
  template <class F>
  void tell(F&& f) {
    scheduler_.set_time(now_, WallTime(duration_cast<microseconds>(now_.time_since_epoch()) +
                                       seconds(1'800'000'000)));
    f();
    carry_out();
  }
  void carry_out() {
    std::vector<Action> actions;
    for (;;) {
      scheduler_.take_actions(actions);
      if (actions.empty()) return;
      for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
    }
  }
  void act(const RouteRecipient& a) {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "relay.example";
    r.recipient = "u@relay.example";
    r.valid_for = seconds(1'000'000);
    auto& level = r.levels.emplace_back();
    for (std::size_t h = 0; h < burst_.hosts.size(); ++h) {
      if (one_ && *one_ != h) continue;
      ipc::Destination d;
      d.transport = "smtp";
      d.host = "mx" + std::to_string(h);
      d.address = "192.0.2." + std::to_string(h);
      d.port = 25;
      level.destinations.push_back(d);
    }
    scheduler_.routed(a.message, a.ordinal, r);
  }
  void act(const OpenConnection& a) {
    ++opened_;
    Live& l = live_[a.connection];
    l.host = std::stoul(a.destination.host.substr(2));
    const Peer& p = burst_.hosts[l.host];
    at(now_ + p.setup(), [this, number = a.connection] {
      const auto it = live_.find(number);
      if (it == live_.end()) return;
      const Peer& peer = burst_.hosts[it->second.host];
      ipc::delivery::Features f;
      f.pipelining = f.chunking = peer.window > 1;
      f.window = peer.at_once();
      f.connect_time = peer.setup();
      f.round_trip = peer.trip;
      scheduler_.opened(number, f);
    });
  }
  void act(const HandJob& a) {
    Live& l = live_.at(a.connection);
    l.in_hand.emplace_back(a, now_);
    serve(a.connection);
  }
  void serve(ConnectionNumber number) {
    Live& l = live_.at(number);
    if (l.serving || l.in_hand.empty()) return;
    l.serving = true;
    const Peer& p = burst_.hosts[l.host];
    const SteadyTime begun = l.in_hand.front().second;
    const SteadyTime done =
        p.window > 1 ? std::max(now_, begun + p.trip) + p.work() : now_ + p.alone();
    at(done, [this, number] {
      Live& live = live_.at(number);
      const Peer& peer = burst_.hosts[live.host];
      const auto [job, handed] = live.in_hand.front();
      live.in_hand.pop_front();
      live.serving = false;
      const SteadyTime begun_at = peer.window > 1 ? handed : std::max(handed, live.last);
      live.last = last_ = now_;
      --left_;
      scheduler_.job_done(job.job, duration_cast<microseconds>(now_ - begun_at), JobEnd::served);
      scheduler_.forget(job.message);
      if (live.closing && live.in_hand.empty())
        live_.erase(number);
      else
        serve(number);
    });
  }
  void act(const CloseConnection& a) {
    const auto it = live_.find(a.connection);
    if (it == live_.end()) return;
    it->second.closing = true;
    if (it->second.in_hand.empty()) live_.erase(it);
  }
  void act(const DeferRecipients& a) { BOOST_FAIL("deferred: " << a.status.text); }

  struct Event {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return std::tie(o.at, o.order) < std::tie(at, order); }
  };
  void at(SteadyTime when, std::function<void()> f) {
    events_.push({when, ++order_, std::move(f)});
  }
  void run() {
    while (left_ > 0) {
      const SteadyTime wake = scheduler_.next_wake();
      BOOST_REQUIRE_MESSAGE(!events_.empty() || wake != kNever, left_ << " messages stand still");
      if (events_.empty() || wake < events_.top().at) {
        now_ = std::max(now_, wake);
        tell([&] { scheduler_.tick(); });
        continue;
      }
      const auto event = events_.top();
      events_.pop();
      now_ = event.at;
      tell(event.act);
    }
  }

  const Burst& burst_;
  Random random_;
  destdb::MemoryTable table_;
  Scheduler scheduler_;
  SteadyTime now_{seconds(1000)}, last_{};
  std::optional<std::size_t> one_;
  std::uint32_t left_ = 0;
  MessageNumber message_ = 0;
  std::uint64_t order_ = 0, opened_ = 0;
  std::map<ConnectionNumber, Live> live_;
  std::priority_queue<Event> events_;
};

/// Whoever is free first takes the next message; `slots` says how many may be busy after so many were delivered.
struct Slots {
  std::function<std::uint64_t(std::uint64_t done)> slots;
  microseconds setup, first, next;
  microseconds time(std::uint32_t messages) const {
    std::priority_queue<microseconds, std::vector<microseconds>, std::greater<>> busy;
    microseconds now{0};
    std::uint64_t done = 0, begun = 0, open = 0, idle = 0;
    while (done < messages) {
      while (begun < messages && idle > 0) {
        --idle;
        ++begun;
        busy.push(now + next);
      }
      while (begun < messages && open < slots(done)) {
        ++open;
        ++begun;
        busy.push(now + setup + first);
      }
      now = busy.top();
      busy.pop();
      ++done;
      ++idle;
    }
    return now;
  }
};

/// The best that can be done within the limits by hosts that are all alike: as many connections as there may be, opened as
/// early as they may be, and never idle while messages are left.
microseconds limit(const Burst& b) {
  const Peer& p = b.hosts.front();
  const std::uint64_t hosts = b.hosts.size();
  const std::uint64_t most = hosts * b.concurrency;
  return Slots{[=, &b](std::uint64_t done) {
                 if (b.known) return most;
                 return std::min<std::uint64_t>(most,
                                                hosts * std::min(b.initial, b.concurrency) + done);
               },
               p.setup(), p.alone(), p.each()}
      .time(b.messages);
}

/// Postfix: a limit for the next hop, whatever its hosts; from initial_destination_concurrency one more with each delivery.
/// Kinder than Postfix is: every connection is used again.
microseconds postfix(const Burst& b) {
  const Peer& p = b.hosts.front();
  const microseconds each = p.work() + p.trip * (p.window > 1 ? 2 : 4);
  return Slots{
      [&b](std::uint64_t done) { return std::min<std::uint64_t>(b.concurrency, b.initial + done); },
      p.setup(), each, each}
      .time(b.messages);
}

double seconds_of(microseconds t) { return static_cast<double>(t.count()) / 1e6; }

std::string shown(const Burst& b) {
  const Peer& p = b.hosts.front();
  std::string out = std::to_string(b.messages) + " messages, " + std::to_string(b.hosts.size()) +
                    " hosts, " + std::to_string(b.concurrency) + " connections each, " +
                    (b.known ? "known" : "new") + ", window " + std::to_string(p.window);
  for (const auto& [name, t] : {std::pair("trip", p.trip), std::pair("greeting", p.greeting),
                                std::pair("ehlo", p.ehlo), std::pair("mail", p.mail),
                                std::pair("rcpt", p.rcpt), std::pair("end of data", p.end_of_data)})
    out += std::string(", ") + name + " " + std::to_string(t.count()) + " us";
  return out;
}

constexpr std::uint64_t kBursts = 100;  // at random; 400 were tried

// What small bursts may lose beside who knows everything beforehand: a further connection is not opened for less, and the
// last messages may each find the path empty.
microseconds grace(const Burst& b) { return milliseconds(25) + 2 * b.hosts.front().trip; }

void check(const Burst& b) {
  Run run(b);
  const microseconds took = run.time();
  const microseconds best = limit(b);
  BOOST_TEST_MESSAGE(seconds_of(took)
                     << " s of " << seconds_of(best) << " s, Postfix " << seconds_of(postfix(b))
                     << " s, " << run.opened() << " connections: " << shown(b));
  BOOST_CHECK_MESSAGE(
      seconds_of(took) <= seconds_of(best + grace(b)) / 0.97,
      shown(b) << ": " << seconds_of(took) << " s, the limits allow " << seconds_of(best) << " s");
  BOOST_CHECK_MESSAGE(
      took <= postfix(b) + milliseconds(25),
      shown(b) << ": " << seconds_of(took) << " s, Postfix " << seconds_of(postfix(b)) << " s");
}

Burst burst(std::size_t hosts, const Peer& peer, std::uint32_t messages,
            std::uint32_t concurrency = 20) {
  Burst b;
  b.hosts.assign(hosts, peer);
  b.messages = messages;
  b.concurrency = concurrency;
  return b;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_relay_that_takes_its_time_at_end_of_data_gets_all_connections) {
  Peer scanner;
  scanner.end_of_data = milliseconds(300);
  for (const std::uint32_t concurrency : {20U, 50U}) check(burst(1, scanner, 1000, concurrency));
}

BOOST_AUTO_TEST_CASE(a_cold_burst_spreads_over_equal_hosts) {
  Peer slow;
  slow.end_of_data = seconds(1);
  check(burst(4, slow, 80));
}

BOOST_AUTO_TEST_CASE(a_slow_reply_to_ehlo_is_no_long_path) {
  Peer slow;
  slow.greeting = slow.ehlo = slow.mail = slow.rcpt = slow.end_of_data = milliseconds(300);
  check(burst(1, slow, 200));
}

BOOST_AUTO_TEST_CASE(a_long_path_is_kept_full) {
  Peer far;
  far.trip = milliseconds(100);
  far.mail = far.rcpt = microseconds(50);
  far.end_of_data = microseconds(200);
  far.window = 160;
  check(burst(1, far, 10'000, 1));
  check(burst(1, far, 20'000, 20));
}

BOOST_AUTO_TEST_CASE(any_burst_is_nearly_as_fast_as_the_limits_allow_and_no_slower_than_postfix) {
  for (std::uint64_t seed = 1; seed <= kBursts; ++seed) {
    Random random(seed);
    const auto between = [&](double least, double most) {  // log-uniform
      return least * std::pow(most / least, static_cast<double>(random.below(1'000'000)) / 1e6);
    };
    const auto reply = [&] {
      return random.chance(0.4) ? milliseconds(1)
                                : milliseconds(static_cast<std::int64_t>(between(1, 3000)));
    };
    Peer p;
    const std::int64_t trips[] = {100, 100, 1000, 20'000, 100'000};
    p.trip = microseconds(trips[random.below(5)]);
    p.greeting = reply();
    p.ehlo = reply();
    p.mail = reply();
    p.rcpt = reply();
    p.end_of_data = reply();
    p.window = static_cast<std::uint32_t>(between(1, 101));
    const std::uint32_t limits[] = {1, 5, 20, 20, 50};
    Burst b = burst(std::size_t{1} << random.below(6), p,
                    static_cast<std::uint32_t>(between(10, 10'001)), limits[random.below(5)]);
    b.known = random.chance(0.5);
    b.seed = seed;
    BOOST_TEST_CONTEXT("seed " << seed) { check(b); }
  }
}

}  // namespace pen::qmgr
