/// Whatever happens in whatever order, nothing is forgotten: once the world behaves, every recipient comes to an end.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "lib/base/random.h"
#include "lib/queue/shaping/rules_file.h"
#include "lib/testing/environment.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

using ipc::delivery::Trouble;

/// What one of the hosts may complain of, by the last digit of its code.
std::shared_ptr<const ShapingOptions> shaped() {
  auto o = std::make_shared<ShapingOptions>();
  o->mode = ShapingOptions::Mode::yes;
  o->pace = {.pause = seconds(2), .minimum = shaping::Rate::per_second(5), .increase = seconds(1)};
  BOOST_REQUIRE(
      shaping::read_rules("provider big h0 h1\n"
                          "rule a code=451 class=rate scope=source\n"
                          "rule b code=452 class=rate scope=envelope-domain pause=3s\n"
                          "rule c code=453 class=connections scope=source\n"
                          "rule d code=454 class=block scope=provider pause=2s\n"
                          "rule e code=455 class=recipient scope=recipient pause=1s\n",
                          "rules", o->rules));
  o->limit = [](const std::string& name) -> ShapingOptions::Limit {
    if (name == "provider:big") return {shaping::Rate::per_second(50), 2};
    if (name == "domain:site2") return {{}, 1};
    if (name == "tenant:t1") return {shaping::Rate::per_second(20), 2};
    return {};
  };
  return o;
}

/// Limits that rise with time alone tell nobody: one of those that wait looks so often.
constexpr seconds kLooksAgain{1};

/// A few hosts behind a few next hops, trivial-rewrite and delivery programs, all at the mercy of chance.
struct World {
  destdb::MemoryTable table;
  Random chance;  // the world's; the scheduler has its own
  Random random;
  SteadyTime now{seconds(1000)};
  std::unique_ptr<Scheduler> core;
  struct Open {
    bool opened = false;
    bool asks = false;     // for its lease
    bool closing = false;  // when its jobs are done
    std::string key;
    std::vector<HandJob> handed;
  };
  std::vector<RouteRecipient> look_ups;
  std::map<ConnectionNumber, Open> connections;
  std::map<MessageNumber, std::size_t> outstanding;  // recipients without an end
  std::set<MessageNumber> withdrawn;
  std::set<std::string> refused;  // destinations of which others have all connections
  MessageNumber next_message = 1;
  std::uint64_t ends = 0, delivered = 0;
  SteadyTime waits_since = kNever;  // something waits needlessly

  explicit World(std::uint64_t seed) : chance(seed), random(seed + 1) {
    Options o;
    o.backlog_threshold = 1 + static_cast<std::uint32_t>(below(10));
    o.routing_workers = 1 + static_cast<std::uint32_t>(below(20));
    o.share_limit = below(3) == 0 ? 3 : 0;
    if (below(2) == 0)
      o.session_class = [](std::string_view host, std::string_view) {
        return host == "h0" || host == "h1" ? std::optional(Options::SessionClass{1, {}}) : std::nullopt;
      };
    TransportLimits limits;
    limits.workers = 1 + static_cast<std::uint32_t>(below(12));
    limits.destination_concurrency = static_cast<std::uint32_t>(below(5));
    limits.destination_recipients = 1 + static_cast<std::uint32_t>(below(5));
    limits.initial_concurrency = static_cast<std::uint32_t>(below(3));
    limits.combine_domains = below(2) == 0;
    limits.sessions = static_cast<std::uint32_t>(below(4));
    if (below(6) == 0) limits.rate_delay = milliseconds(500);
    if (below(2) == 0) o.shaping = shaped();
    if (below(4) == 0) limits.rate_limit = shaping::Rate::per_second(20);
    core = std::make_unique<Scheduler>(o, [limits](std::string_view) { return limits; }, table, random);
    advance(seconds(0));
  }
  std::uint64_t below(std::uint64_t n) { return chance.below(n); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  void advance(microseconds by) {
    now += by;
    core->set_time(now,
                   WallTime(std::chrono::duration_cast<microseconds>(now.time_since_epoch()) + seconds(1'800'000'000)));
  }

  void arrive() {
    const MessageNumber m = next_message++;
    const auto count = static_cast<std::uint32_t>(1 + (one_in(5) ? below(30) : below(2)));
    Ordinals all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(i);
    outstanding[m] = count;
    core->admit(m, all, below(4), "t" + std::to_string(below(3)), "d" + std::to_string(below(3)));
    if (one_in(20)) core->isolate_message(m);
    collect();
  }
  void ended(MessageNumber m, std::size_t count) {
    BOOST_REQUIRE(outstanding.contains(m));
    BOOST_REQUIRE_GE(outstanding[m], count);
    ends += count;
    if ((outstanding[m] -= count) != 0) return;
    outstanding.erase(m);
    withdrawn.erase(m);
    core->forget(m);
  }
  void collect() {
    for (auto actions = core->take_actions(); !actions.empty(); actions = core->take_actions()) {
      for (auto& a : actions) take(a);
    }
    const std::string waits = core->needless_wait();
    waits_since = waits.empty() ? kNever : std::min(waits_since, now);
    BOOST_REQUIRE_MESSAGE(waits.empty() || waits_since + kLooksAgain >= now, waits);
  }
  void take(Action& a) {
    if (auto* r = std::get_if<RouteRecipient>(&a)) look_ups.push_back(*r);
    if (auto* o = std::get_if<OpenConnection>(&a))
      connections[o->connection] = {.asks = o->session_class.has_value(), .key = o->key, .handed = {}};
    if (auto* h = std::get_if<HandJob>(&a)) {
      BOOST_REQUIRE(connections.contains(h->connection) && connections[h->connection].opened);
      connections[h->connection].handed.push_back(*h);
    }
    if (auto* c = std::get_if<CloseConnection>(&a)) {
      // The program ends the jobs in hand first; without any it is closed now.
      if (const auto it = connections.find(c->connection); it != connections.end()) {
        it->second.closing = true;
        if (it->second.handed.empty()) connections.erase(it);
      }
    }
    if (auto* d = std::get_if<DeferRecipients>(&a)) ended(d->message, d->ordinals.size());
  }

  void answer_look_up(bool well) {
    if (look_ups.empty()) return;
    const std::size_t which = below(look_ups.size());
    const RouteRecipient asked = look_ups[which];
    look_ups.erase(look_ups.begin() + static_cast<std::ptrdiff_t>(which));
    if (!well && one_in(10)) {
      core->route_lost(asked.message, asked.ordinal, one_in(2));
      collect();
      return;
    }
    if (!well && one_in(20)) {
      core->unroutable(asked.message, asked.ordinal);
      ended(asked.message, 1);
      collect();
      return;
    }
    ipc::route::Resolved answer;
    answer.transport = one_in(5) ? "relay" : "smtp";
    const std::uint64_t site = below(4);
    answer.nexthop = "site" + std::to_string(site);
    answer.recipient = "user@" + answer.nexthop;
    if (!well && one_in(10)) answer.valid_for = seconds(below(3));
    // Sites share hosts: 0, 01, 01|2, 2|3.
    const std::vector<std::vector<int>> levels[] = {{{0}}, {{0, 1}}, {{0, 1}, {2}}, {{2}, {3}}};
    for (const auto& level : levels[site]) {
      ipc::route::Level to;
      for (const int host : level) {
        ipc::Destination d;
        d.transport = answer.transport;
        d.host = "h" + std::to_string(host);
        d.address = "192.0.2." + std::to_string(host);
        d.port = 25;
        to.destinations.push_back(d);
      }
      answer.levels.push_back(to);
    }
    core->routed(asked.message, asked.ordinal, answer);
    collect();
  }

  /// Something happens to one connection.
  void turn(bool well) {
    if (connections.empty()) return;
    auto it = connections.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(below(connections.size())));
    const ConnectionNumber number = it->first;
    Open& c = it->second;
    const std::uint64_t fate = well ? 0 : below(12);
    if (c.asks) {
      if (fate < 8) {
        c.asks = false;
        core->session_granted(number);
      } else {
        connections.erase(it);
        core->session_refused(number);
      }
    } else if (!c.opened && fate == 1 && one_in(3)) {
      refused.insert(c.key);
      connections.erase(it);
      core->refused(number);
    } else if (!c.opened && fate < 8) {
      c.opened = true;
      ipc::delivery::Features f;
      f.window = static_cast<std::uint32_t>(1 + below(4));
      core->opened(number, f);
    } else if (c.opened && fate < 8) {
      if (c.handed.empty()) return;
      const HandJob job = c.handed.front();
      c.handed.erase(c.handed.begin());
      if (c.closing && c.handed.empty()) connections.erase(it);
      const std::size_t put_off = well || one_in(2) ? 0 : 1 + below(job.ordinals.size());
      const Ordinals back(job.ordinals.begin(), job.ordinals.begin() + static_cast<std::ptrdiff_t>(put_off));
      const mail::DeliveryStatus status{mail::Action::deferred, "4.3.0", "not now", {}, {}};
      if (put_off > 0 && one_in(3)) complain(job.job);
      if (put_off > 0 && one_in(4))
        core->one_domain_only(job.job, back, status);
      else if (put_off > 0 && put_off < job.ordinals.size() && one_in(4))
        core->rest_at_once(job.job, back, status);
      else if (put_off > 0)
        core->try_next_host(job.job, back, status);
      const bool some = put_off < job.ordinals.size();
      delivered += some ? 1 : 0;
      core->job_done(job.job, milliseconds(below(2000)),
                     some        ? JobEnd::served
                     : one_in(2) ? JobEnd::put_off
                                 : JobEnd::cut_short);
      if (some) ended(job.message, job.ordinals.size() - put_off);
    } else {
      static const Trouble kTroubles[] = {Trouble::none,     Trouble::refused, Trouble::timed_out, Trouble::lost,
                                          Trouble::peer_421, Trouble::local,   Trouble::replaced};
      const Trouble trouble = kTroubles[below(std::size(kTroubles))];
      std::vector<JobNumber> unstarted;
      for (const auto& job : c.handed) {
        if (one_in(2)) unstarted.push_back(job.job);
        if (one_in(10)) core->isolate(job.job);
      }
      const bool opened = c.opened;
      connections.erase(it);
      if (opened && one_in(3)) core->out_of_step(number);
      core->closed(number, opened, trouble, mail::make_status(mail::Action::deferred, "4.4.2", "trouble"), unstarted);
    }
    collect();
  }

  void complain(JobNumber job) {
    const std::string said = "45" + std::to_string(1 + below(5)) + " 4.7.0 less, please";
    const std::string recipient = "user@site" + std::to_string(below(4));
    (void)core->complained(job, {.recipient = recipient},
                           {mail::Action::deferred, "4.7.0", said, "smtp; " + said, "h"});
  }

  void withdraw(MessageNumber m) {
    if (!withdrawn.insert(m).second) return;
    const Ordinals back = core->withdraw(m);
    if (!back.empty()) ended(m, back.size());
    collect();
  }
  void meddle() {
    switch (below(12)) {
      case 0:
      case 1:
        core->forgive();
        break;
      case 2:
        if (!outstanding.empty()) {
          auto it = outstanding.begin();
          std::advance(it, static_cast<std::ptrdiff_t>(below(outstanding.size())));
          withdraw(it->first);
        }
        break;
      case 3:
        core->transport_up("smtp", one_in(2));
        break;
      case 4:
        core->transport_failed("smtp", mail::make_status(mail::Action::deferred, "4.3.0", "unavailable"));
        break;
      case 5:
        core->session_room(1);
        break;
      case 6:
        core->yield_session(1);
        break;
      case 7:
        core->suspensions_changed();
        break;
      case 9:
        look_again();
        break;
      case 10:
        if (one_in(2))
          core->order_rate("big", one_in(2) ? shaping::Rate::per_second(10) : shaping::Rate{});
        else
          core->forget_limits("big");
        (void)core->take_shaping_news();
        break;
      case 8:
        if (const auto m = core->excess()) withdraw(*m);
        break;
      default:
        break;
    }
    collect();
  }

  void look_again() {
    for (const std::string& key : std::exchange(refused, {})) core->look_again(key);
    collect();
  }
  void pass_time() {
    advance(milliseconds(below(one_in(10) ? 5000 : 100)));
    if (core->next_wake() <= now) core->tick();
    collect();
  }

  void misbehave(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (below(8)) {
        case 0:
          arrive();
          break;
        case 1:
        case 2:
          answer_look_up(false);
          break;
        case 3:
        case 4:
        case 5:
          turn(false);
          break;
        case 6:
          pass_time();
          break;
        default:
          if (one_in(4)) meddle();
      }
    }
  }

  void describe_stall() const {
    const auto f = core->figures();
    BOOST_TEST_MESSAGE("stalled: " << outstanding.size() << " messages, " << f.jobs << " jobs, " << f.in_hand
                                   << " in hand, " << f.routing << " look-ups, " << connections.size() << " of "
                                   << f.connections << " connections");
    for (const auto& [m, count] : outstanding)
      BOOST_TEST_MESSAGE("  message " << m << " recipients " << count << (withdrawn.contains(m) ? " withdrawn" : ""));
    core->each_destination([](const DestinationState& d) {
      BOOST_TEST_MESSAGE("  " << d.address.shown() << " class " << static_cast<int>(d.classification) << " connections "
                              << d.connections << "/" << d.limit << " in hand " << d.in_hand << " waiting " << d.waiting
                              << " failures " << d.facts.failures << " tolerated " << d.facts.tolerated_connections
                              << " elsewhere " << d.elsewhere);
    });
  }

  /// Everything works from here on. False: something waits for nothing, or for what only connection_max_age ends.
  bool behave() {
    core->transport_up("smtp", true);
    core->session_room(1);
    look_again();
    SteadyTime progress = now;
    while (!outstanding.empty()) {
      const std::uint64_t before = ends;
      while (!look_ups.empty()) answer_look_up(true);
      for (std::size_t i = connections.size() * 4; i > 0; --i) turn(true);
      if (ends != before || !look_ups.empty()) {
        progress = now;
        continue;
      }
      const bool busy = std::any_of(connections.begin(), connections.end(), [](const auto& c) {
        return c.second.asks || !c.second.opened || !c.second.handed.empty();
      });
      if (busy) continue;
      const SteadyTime wake = core->next_wake();
      if (wake == kNever || now > progress + seconds(60)) {
        describe_stall();
        return false;
      }
      advance(std::max(std::chrono::duration_cast<microseconds>(wake - now), microseconds(1)));
      core->tick();
      collect();
    }
    return true;
  }
};

/// With nothing left to do every connection is idle, and closes.
bool rests(World& w) {
  for (std::size_t i = w.connections.size() * 8; i > 0; --i) w.turn(true);
  const SteadyTime end = w.now + seconds(30);
  while (!w.connections.empty() && w.core->next_wake() <= end) {
    w.advance(std::max(std::chrono::duration_cast<microseconds>(w.core->next_wake() - w.now), microseconds(1)));
    w.core->tick();
    w.collect();
    for (std::size_t i = w.connections.size() * 8; i > 0; --i) w.turn(true);
  }
  return w.connections.empty();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_liveness)

BOOST_AUTO_TEST_CASE(every_recipient_comes_to_an_end_once_the_world_behaves) {
  // PEN_LIVENESS_SEED and PEN_LIVENESS_RUNS: more of it by hand.
  const std::uint64_t first = testing::from_environment("PEN_LIVENESS_SEED", 1);
#ifdef PEN_FEW
  constexpr std::uint64_t kRuns = 250;
#else
  constexpr std::uint64_t kRuns = 1000;
#endif
  const std::uint64_t runs = testing::from_environment("PEN_LIVENESS_RUNS", kRuns);
  std::uint64_t delivered = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    World w(seed);
    w.misbehave(static_cast<int>(50 + w.below(600)));
    BOOST_REQUIRE(w.behave());
    BOOST_REQUIRE(rests(w));
    const auto figures = w.core->figures();
    BOOST_REQUIRE_EQUAL(figures.jobs, 0U);
    BOOST_REQUIRE_EQUAL(figures.messages, 0U);
    BOOST_REQUIRE_EQUAL(figures.routing, 0U);
    delivered += w.delivered;
  }
  BOOST_TEST(delivered > runs);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
