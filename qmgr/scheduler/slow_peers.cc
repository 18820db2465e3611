#include "qmgr/scheduler/slow_peers.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>

#include "lib/base/check.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::slow_peers {

using std::chrono::duration_cast;

microseconds Peer::work() const {
  return mail + rcpt + end_of_data + (offers == Offers::chunking ? microseconds(0) : data);
}

microseconds Peer::alone() const {
  switch (offers) {
    case Offers::nothing:
      return work() + 4 * trip;
    case Offers::pipelining:
      return work() + 2 * trip;
    case Offers::chunking:
      break;
  }
  return work() + trip;
}

microseconds Peer::each() const {
  switch (offers) {
    case Offers::nothing:
      return alone();
    case Offers::pipelining:
      return work() + trip * (at_once() > 1 ? 1 : 2);
    case Offers::chunking:
      break;
  }
  return std::max({work(), alone() / at_once(), microseconds(1)});
}

std::uint32_t Peer::at_once() const {
  if (offers == Offers::nothing) return 2;  // the next one lies ready
  if (offers == Offers::pipelining) return std::min(4U, window);
  return window * static_cast<std::uint32_t>(std::clamp<std::int64_t>((trip + ehlo) / milliseconds(20), 1, 8));
}

std::uint32_t Burst::messages() const {
  std::uint32_t sum = 0;
  for (const Route& r : routes) sum += r.messages;
  return sum;
}

Burst burst(std::size_t hosts, const Peer& peer, std::uint32_t messages, std::uint32_t concurrency) {
  Burst b;
  b.hosts.assign(hosts, peer);
  Route& all = b.routes.emplace_back();
  for (std::size_t h = 0; h < hosts; ++h) all.hosts.push_back(h);
  all.messages = messages;
  b.concurrency = concurrency;
  return b;
}

namespace {

class World {
 public:
  explicit World(const Burst& burst)
      : burst_(burst),
        random_(burst.seed),
        scheduler_(options(), limits(), table_, random_),
        at_work_(burst.hosts.size()) {
    count_from_now();
  }

  Outcome run() {
    if (burst_.known) {
      // A few messages to each host, and the connections are closed again.
      for (std::size_t h = 0; h < burst_.hosts.size(); ++h) {
        one_ = h;
        for (std::uint32_t i = 0; i < 2 * burst_.concurrency + burst_.initial; ++i) arrive(0);
        go_on();
      }
      one_.reset();
      now_ += seconds(10);
      tell([&] { scheduler_.tick(); });
    }
    count_from_now();
    if (burst_.steady > 0) {
      constexpr seconds kBefore{3};
      burst_at_ = now_ + kBefore;
      steady();
      at(burst_at_, [] {});
      while (now_ < burst_at_) step();
      count_from_now();
    }
    const SteadyTime begin = now_;
    first_of_burst_ = message_ + 1;
    burst_left_ = burst_.messages();
    std::vector<std::uint32_t> left;
    if (burst_.envelope) arrive_envelope(0, burst_.routes.front().messages);
    for (const Route& r : burst_.routes) left.push_back(burst_.envelope && left.empty() ? 0 : r.messages);
    for (bool more = true; std::exchange(more, false);) {
      for (std::size_t r = 0; r < left.size(); ++r) {
        if (left[r] == 0) continue;
        --left[r];
        more = true;
        arrive(r);
      }
    }
    while (burst_left_ > 0) step();
    outcome_.took = duration_cast<microseconds>(last_ - begin);
    outcome_.waits_for_nothing = waits_for_nothing_;
    // When connections close the table hears of it.
    if (burst_.steady == 0) {
      now_ += seconds(10);
      tell([&] { scheduler_.tick(); });
    }
    for (std::size_t h = 0; h < burst_.hosts.size(); ++h)
      outcome_.measured.push_back(table_.find(address_of(h).key()).value_or(destdb::Facts()).service_time);
    return outcome_;
  }

 private:
  void count_from_now() {
    outcome_ = {};
    outcome_.most = live_.size();
    outcome_.delivered.resize(burst_.hosts.size());
    for (auto& [number, l] : live_) l.for_nothing = false;
  }
  struct Live {
    std::size_t host = 0;
    std::deque<std::pair<HandJob, SteadyTime>> in_hand;
    SteadyTime last{};
    SteadyTime group = SteadyTime::min();  // PIPELINING: until then the next one goes along
    bool serving = false;
    bool closing = false;
    bool for_nothing = true;  // nothing was handed to it yet
  };
  /// Messages that a host works on, and those that wait until it does (Peer::at_a_time).
  struct AtWork {
    std::uint32_t now = 0;
    std::deque<ConnectionNumber> waiting;
  };
  static Options options() {
    Options o;
    o.fairness.scale_max_concurrency = 10;
    return o;
  }
  std::function<TransportLimits(std::string_view)> limits() const {
    return [this](std::string_view) {
      TransportLimits l;
      l.workers = burst_.workers;
      l.destination_concurrency = burst_.concurrency;
      l.initial_concurrency = burst_.initial;
      l.max_age = std::chrono::hours(1000);
      if (burst_.envelope) l.destination_recipients = kTogether;
      return l;
    };
  }
  void arrive(std::size_t route) {
    ++left_;
    const MessageNumber n = ++message_;
    route_of_[n] = route;
    tell([&] { scheduler_.admit(n, {0}); });
  }
  void arrive_envelope(std::size_t route, std::uint32_t deliveries) {
    left_ += deliveries;
    const MessageNumber n = ++message_;
    Ordinals all;
    for (std::uint32_t i = 0; i < kTogether * deliveries; ++i) all.push_back(i);
    envelope_ = {n, deliveries};
    route_of_[n] = route;
    tell([&] { scheduler_.admit(n, all); });
  }
  /// One of the steady mail, and the next when its time has come. At random, so that hosts are not met in turn.
  void steady() {
    arrive(0);
    const double wait = -std::log(1 - static_cast<double>(chance_.below(1'000'000)) / 1e6) / burst_.steady;
    at(now_ + microseconds(static_cast<std::int64_t>(wait * 1e6)), [this] { steady(); });
  }
  template <class F>
  void tell(F&& f) {
    scheduler_.set_time(now_, WallTime(duration_cast<microseconds>(now_.time_since_epoch()) + seconds(1'800'000'000)));
    f();
    carry_out();
  }
  void carry_out() {
    std::vector<Action> actions;
    for (;;) {
      scheduler_.take_actions(actions);
      if (actions.empty()) break;
      for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
    }
    if (waits_for_nothing_.empty()) waits_for_nothing_ = scheduler_.needless_wait();
  }
  static ipc::Destination address_of(std::size_t host) {
    ipc::Destination d;
    d.transport = "smtp";
    d.host = "mx" + std::to_string(host);
    d.address = "192.0.2." + std::to_string(host);
    d.port = 25;
    return d;
  }
  void act(const RouteRecipient& a) {
    const auto found = route_of_.find(a.message);
    const std::size_t route = found->second;
    if (a.message != envelope_.first) route_of_.erase(found);
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "relay" + std::to_string(route) + ".example";
    r.recipient = "u" + std::to_string(a.ordinal) + "@" + r.nexthop;
    r.valid_for = seconds(10'000'000);
    auto& level = r.levels.emplace_back();
    for (const std::size_t h : one_ ? std::vector<std::size_t>{*one_} : burst_.routes[route].hosts)
      level.destinations.push_back(address_of(h));
    scheduler_.routed(a.message, a.ordinal, r);
  }
  void act(const OpenConnection& a) {
    ++outcome_.opened;
    ++outcome_.for_nothing;
    Live& l = live_[a.connection];
    outcome_.most = std::max<std::uint64_t>(outcome_.most, live_.size());
    l.host = std::stoul(a.destination.host.substr(2));
    at(now_ + burst_.hosts[l.host].setup(), [this, number = a.connection] {
      const auto it = live_.find(number);
      if (it == live_.end()) return;
      const Peer& peer = burst_.hosts[it->second.host];
      ipc::delivery::Features f;
      f.pipelining = peer.offers != Offers::nothing;
      f.chunking = peer.offers == Offers::chunking;
      f.window = peer.at_once();
      f.connect_time = peer.setup();
      f.round_trip = peer.trip;
      scheduler_.opened(number, f);
    });
  }
  void act(const HandJob& a) {
    Live& l = live_.at(a.connection);
    if (std::exchange(l.for_nothing, false)) --outcome_.for_nothing;
    l.in_hand.emplace_back(a, now_);
    serve(a.connection);
  }
  void serve(ConnectionNumber number) {
    Live& l = live_.at(number);
    if (l.serving || l.in_hand.empty()) return;
    l.serving = true;
    const Peer& p = burst_.hosts[l.host];
    AtWork& work = at_work_[l.host];
    if (p.at_a_time > 0 && work.now >= p.at_a_time) {
      work.waiting.push_back(number);
      return;
    }
    ++work.now;
    begin(number, l);
  }
  void begin(ConnectionNumber number, Live& l) {
    const Peer& p = burst_.hosts[l.host];
    const SteadyTime handed = l.in_hand.front().second;
    SteadyTime done = now_ + p.alone(), begun = std::max(handed, l.last);
    switch (p.offers) {
      case Offers::nothing:
        break;
      case Offers::pipelining:
        if (handed <= l.group) {  // its commands went along with the content of the one before
          done = now_ + p.work() + p.trip;
          begun = l.group;
        }
        l.group = done - p.trip - p.end_of_data;
        break;
      case Offers::chunking:
        done = std::max(now_, handed + p.trip) + p.work();
        begun = handed;
        break;
    }
    at(done, [this, number, begun] { ended(number, begun); });
  }
  void ended(ConnectionNumber number, SteadyTime begun) {
    Live& l = live_.at(number);
    const std::size_t host = l.host;
    const Peer& p = burst_.hosts[host];
    const HandJob job = l.in_hand.front().first;
    l.in_hand.pop_front();
    l.serving = false;
    l.last = now_;
    // Behind it lie the commands of the next one: its result is believed when all of them have their replies
    // (smtp/engine_replies.cc).
    const bool held = p.offers == Offers::pipelining && !l.in_hand.empty() && l.in_hand.front().second <= l.group;
    if (held)
      at(now_ + p.mail + p.rcpt + p.data, [this, host, job, begun] { told(host, job, begun); });
    else
      told(host, job, begun);
    AtWork& work = at_work_[host];
    --work.now;
    if (!work.waiting.empty()) {
      const ConnectionNumber next = work.waiting.front();
      work.waiting.pop_front();
      ++work.now;
      begin(next, live_.at(next));
    }
    if (l.closing && l.in_hand.empty())
      live_.erase(number);
    else
      serve(number);
  }
  void told(std::size_t host, const HandJob& job, SteadyTime begun) {
    ++outcome_.delivered[host];
    if (job.message >= first_of_burst_ &&
        (job.message == envelope_.first || job.message < first_of_burst_ + burst_.messages())) {
      last_ = now_;
      if (burst_left_ > 0) --burst_left_;
    }
    outcome_.at_end = static_cast<std::uint32_t>(live_.size());
    --left_;
    scheduler_.job_done(job.job, duration_cast<microseconds>(now_ - begun), JobEnd::served);
    if (job.message != envelope_.first || --envelope_.second == 0) scheduler_.forget(job.message);
  }
  void act(const CloseConnection& a) {
    const auto it = live_.find(a.connection);
    if (it == live_.end()) return;
    it->second.closing = true;
    if (it->second.in_hand.empty()) live_.erase(it);
  }
  void act(const DeferRecipients& a) { check_failed("deferred", __FILE__, __LINE__, a.status.text.c_str()); }

  struct Event {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return std::tie(o.at, o.order) < std::tie(at, order); }
  };
  void at(SteadyTime when, std::function<void()> f) { events_.push({when, ++order_, std::move(f)}); }
  void go_on() {
    while (left_ > 0) step();
  }
  void step() {
    const SteadyTime wake = scheduler_.next_wake();
    PEN_CHECK(!events_.empty() || wake != kNever, "messages stand still");
    if (events_.empty() || wake < events_.top().at) {
      now_ = std::max(now_, wake);
      tell([&] { scheduler_.tick(); });
      return;
    }
    const auto event = events_.top();
    events_.pop();
    now_ = event.at;
    tell(event.act);
  }

  static constexpr std::uint32_t kTogether = 2;  // recipients of an envelope in a delivery
  const Burst& burst_;
  Random random_, chance_{burst_.seed + 1};
  destdb::MemoryTable table_;
  Scheduler scheduler_;
  SteadyTime now_{seconds(1000)}, last_{};
  std::optional<std::size_t> one_;
  std::uint32_t left_ = 0, burst_left_ = 0;
  MessageNumber message_ = 0, first_of_burst_ = 0;
  std::pair<MessageNumber, std::uint32_t> envelope_{0, 0};  // and deliveries without a result
  SteadyTime burst_at_{};
  std::map<MessageNumber, std::size_t> route_of_;
  std::uint64_t order_ = 0;
  Outcome outcome_;
  std::string waits_for_nothing_;
  std::vector<AtWork> at_work_;
  std::map<ConnectionNumber, Live> live_;
  std::priority_queue<Event> events_;
};

using Earliest = std::priority_queue<microseconds, std::vector<microseconds>, std::greater<>>;

/// How many messages each connection to the host can have delivered by then, if it is never idle and all are opened
/// as early as they may be.
std::vector<std::uint64_t> deliverable(const Burst& b, const Peer& p, microseconds by) {
  std::vector<std::uint64_t> each;
  const auto begin = [&](microseconds opened) {
    const microseconds first = opened + p.setup() + p.alone();
    each.push_back(first > by ? 0 : 1 + static_cast<std::uint64_t>((by - first) / p.each()));
    return first;
  };
  if (b.steady > 0) {  // that has seen to its connections
    while (each.size() < b.concurrency) begin(microseconds(0));
  } else {
    // One connection more with each message delivered.
    Earliest results;
    while (each.size() < std::min(b.initial, b.concurrency)) results.push(begin(microseconds(0)));
    while (each.size() < b.concurrency && results.top() <= by) {
      const microseconds now = results.top();
      results.pop();
      results.push(now + p.each());
      results.push(begin(now));
    }
  }
  if (p.at_a_time > 0) {  // a host that works on a few at once has so many connections at most, for this purpose
    std::sort(each.begin(), each.end(), std::greater<>());
    each.resize(std::min<std::size_t>(each.size(), p.at_a_time));
  }
  return each;
}

bool suffices(const Burst& b, microseconds by) {
  double worked = 0;  // by all workers
  for (const Route& r : b.routes) {
    struct Part {
      microseconds each;
      std::uint64_t messages;
    };
    std::vector<Part> parts;
    microseconds soonest = microseconds::max(), latest{0};
    for (const std::size_t h : r.hosts) {
      for (const std::uint64_t n : deliverable(b, b.hosts[h], by)) parts.push_back({b.hosts[h].each(), n});
      soonest = std::min(soonest, b.hosts[h].setup() + b.hosts[h].alone());
      latest = std::max(latest, b.hosts[h].setup() + b.hosts[h].alone());
    }
    // The first message, or that of each host.
    if ((b.known ? std::min(latest, 3 * soonest + milliseconds(50)) : latest) > by) return false;
    // As many connections as there are workers: those that deliver most.
    std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.messages > y.messages; });
    parts.resize(std::min<std::size_t>(parts.size(), b.workers));
    std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.each < y.each; });
    std::uint64_t left = r.messages;
    if (&r == &b.routes.front()) left += static_cast<std::uint64_t>(seconds_of(by) * b.steady);
    for (const Part& p : parts) {
      const std::uint64_t n = std::min(left, p.messages);
      worked += seconds_of(p.each) * static_cast<double>(n);
      left -= n;
    }
    if (left > 0) return false;
  }
  return worked <= seconds_of(by) * b.workers;
}

}  // namespace

Outcome run(const Burst& b) { return World(b).run(); }

microseconds limit(const Burst& b) {
  microseconds least{0}, most{1000};
  while (!suffices(b, most)) most *= 2;
  while (most - least > microseconds(100)) {
    const microseconds middle = (least + most) / 2;
    (suffices(b, middle) ? most : least) = middle;
  }
  return most;
}

double Outcome::per_connection() const {
  const double messages = std::accumulate(delivered.begin(), delivered.end(), 0.0);
  return messages / static_cast<double>(std::max<std::uint64_t>(opened, 1));
}

OfPostfix postfix(const Burst& b, std::uint64_t seed) {
  Random random(seed);
  OfPostfix out;
  struct NextHop {
    std::uint32_t left, window, most, busy = 0;
    std::vector<std::size_t> idle;  // connections, by their hosts
  };
  std::vector<NextHop> hops;
  const auto beside = b.steady == 0 ? 0U : static_cast<std::uint32_t>(seconds_of(limit(b)) * b.steady);
  for (const Route& r : b.routes) {
    // More than its hosts work on at a time bring nothing.
    std::uint32_t most = 0;
    for (const std::size_t h : r.hosts) most += b.hosts[h].at_a_time > 0 ? b.hosts[h].at_a_time : b.concurrency;
    most = std::min(most, b.concurrency);
    hops.push_back({r.messages + (hops.empty() ? beside : 0U), std::min(b.initial, most), most, 0, {}});
  }
  struct Delivery {
    microseconds done;
    std::size_t hop, host;
    bool operator<(const Delivery& o) const { return o.done < done; }
  };
  std::priority_queue<Delivery> busy;
  microseconds now{0};
  std::size_t turn = 0;
  for (std::uint32_t left = b.messages() + beside; left > 0; --left) {
    for (std::size_t looked = 0; looked < hops.size() && busy.size() < b.workers;) {
      const std::size_t at = turn++ % hops.size();
      NextHop& hop = hops[at];
      if (hop.left == 0 || hop.busy >= hop.window) {
        ++looked;
        continue;
      }
      looked = 0;
      --hop.left;
      ++hop.busy;
      const auto& hosts = b.routes[at].hosts;
      const bool again = !hop.idle.empty();
      if (!again) ++out.opened;
      const std::size_t host = again ? hop.idle.back() : hosts[random.below(hosts.size())];
      if (again) hop.idle.pop_back();
      const Peer& p = b.hosts[host];
      const microseconds work =
          p.mail + p.rcpt + p.data + p.end_of_data + p.trip * (p.offers == Offers::nothing ? 4 : 2);
      busy.push({now + (again ? microseconds(0) : p.setup()) + work, at, host});
    }
    const Delivery d = busy.top();
    busy.pop();
    out.took = now = d.done;
    NextHop& hop = hops[d.hop];
    --hop.busy;
    hop.window = std::min(hop.window + 1, hop.most);
    hop.idle.push_back(d.host);
  }
  return out;
}

std::uint64_t most_of_postfix(const Burst& b, const std::vector<std::uint32_t>& delivered) {
  std::uint64_t most = 0;
  for (std::size_t h = 0; h < b.hosts.size(); ++h) {
    if (delivered[h] == 0) continue;
    Peer p = b.hosts[h];
    p.at_a_time = 0;  // it opens them all the same
    Burst alone = burst(1, p, delivered[h], b.concurrency);
    alone.initial = b.known ? std::max(b.initial, b.concurrency / 2) : b.initial;
    alone.workers = b.workers;
    most += postfix(alone).opened;
  }
  return most;
}

std::string shown(const Burst& b) {
  std::string out = std::to_string(b.concurrency) + " connections each, " + std::to_string(b.workers) + " workers, " +
                    (b.known ? "known" : "new");
  if (b.steady > 0) out += ", beside " + std::to_string(b.steady) + "/s";
  if (b.envelope) out += ", one envelope";
  for (const Route& r : b.routes) {
    out += "; " + std::to_string(r.messages) + " messages to " + std::to_string(r.hosts.size()) + ":";
    std::string before;
    std::size_t same = 0;
    const auto add = [&] {
      if (same > 0) out += " " + (same > 1 ? std::to_string(same) + " x " : std::string()) + before;
    };
    for (const std::size_t h : r.hosts) {
      const Peer& p = b.hosts[h];
      std::string text = "(";
      for (const auto& [name, t] : {std::pair("trip", p.trip), std::pair("greeting", p.greeting),
                                    std::pair("ehlo", p.ehlo), std::pair("mail", p.mail), std::pair("rcpt", p.rcpt),
                                    std::pair("data", p.data), std::pair("end", p.end_of_data)})
        text += std::string(name) + " " + std::to_string(static_cast<double>(t.count()) / 1000).substr(0, 6) + " ";
      text += p.offers == Offers::nothing      ? "plain"
              : p.offers == Offers::pipelining ? "pipelining"
                                               : "window " + std::to_string(p.window);
      if (p.at_a_time > 0) text += " at a time " + std::to_string(p.at_a_time);
      text += ")";
      if (text != before) {
        add();
        before = std::exchange(text, {});
        same = 0;
      }
      ++same;
    }
    add();
  }
  return out;
}

}  // namespace pen::qmgr::slow_peers
