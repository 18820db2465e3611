/// Probes: connections on the way to destinations of which nothing says that they work. What a dead host costs others.
///
/// A host that does not answer holds a worker until the connection attempt times out (30 s), and nobody can know
/// beforehand which hosts those are. With more of them than workers, all workers would soon wait for dead hosts, and
/// mail for hosts that are known to work would wait behind them. So:
/// - while others want workers, probes hold an eighth of them at most (more while half of the workers are free), and
///   this eighth is kept for them: what nobody has tried yet is not starved by what works;
/// - what waits for a probe stands in a line of its own, where allowed_new_worker() counts free probes instead of free
///   workers: a big envelope to hosts that nobody knows leaves probes for others;
/// - when others want its worker, or those whose mail it carries wait because they have their share of the workers, a
///   probe that had no answer for longer than our patience ends like a timeout. Hosts that work answer in well under
///   a second or two; 4 s are time for two more tries of TCP (after 1 s and 3 s). The patience doubles with each
///   failure: a host that is slow to greet is not given up early for ever;
/// - messages that wait for probes are parked beyond their share of the active set (share.cc).
/// A connection to a host that worked last time is no probe, nor is what has no address (local delivery).
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::uint32_t kShare = 8;  // one in so many workers
constexpr std::uint32_t kLeast = 3;  // of a handful
constexpr seconds kPatience{4};
constexpr std::uint32_t kMostDoublings = 8;
constexpr seconds kLookAgain{1};  // at probes that nobody needed to be given up
constexpr seconds kSoon{5};       // who waits no longer than that is not looked at
}  // namespace

bool Model::unproven(const Destination& d) {
  if (d.address.address.empty()) return false;
  if (d.facts.failures > 0) return true;
  return d.facts.last_connect == WallTime{};
}

std::uint32_t Model::probe_share(const Transport& t) const {
  return std::max(t.limits.workers / kShare, std::min(t.limits.workers, kLeast));
}

std::uint32_t Model::free_probes(const Transport& t) const {
  const std::uint32_t free = t.free();
  if (t.limits.workers == 0) return free;
  const std::uint32_t share = probe_share(t);
  const std::uint32_t half = t.limits.workers / 2;
  return std::min(free, std::max(share > t.probing ? share - t.probing : 0, free > half ? free - half : 0));
}

microseconds Model::patience(const Destination& d) const {
  return kPatience * (std::int64_t{1} << std::min(d.facts.failures, kMostDoublings));
}

void Model::probe_begins(Connection& c) {
  Transport& t = *c.destination->transport;
  c.opened_at = now;
  t.probes.push_back(c.in_probes);
  ++t.probing;
  t.look_at_probes = std::min(t.look_at_probes, now + patience(*c.destination));
}

void Model::probe_ended(Connection& c) {
  if (!c.in_probes.linked()) return;
  Transport& t = *c.destination->transport;
  c.in_probes.unlink();
  if (--t.probing == 0) t.look_at_probes = kNever;
  mark_dirty(t);
}

void Model::abandon_probes(Transport& t) {
  const bool moves = t.up && !draining && !t.exclusive();
  const std::size_t wanted = moves ? t.wanted_probes + (t.free() == 0 ? t.waiting.size() : 0) : 0;
  // Who waits while workers are free holds his share of them, and among those the probes that bring him nothing.
  std::unordered_map<const Party*, std::size_t> own;
  const auto in_its_own_way = [&](const Connection& c) {
    if (!moves || c.round.empty()) return false;
    Party& p = *c.round.front()->party;
    auto [at, fresh] = own.try_emplace(&p, 0);
    if (fresh) {
      p.each_claim([&](Claim& claimed) {
        if (claimed.transport == &t && !claimed.probe) claimed.shares.for_each([&](PoolShare&) { ++at->second; });
      });
    }
    if (at->second == 0) return false;
    --at->second;
    return true;
  };
  std::vector<Connection*> overdue;
  SteadyTime next = kNever;
  t.probes.for_each([&](Connection& c) {
    // One that still asks for its session lease has not begun.
    const SteadyTime due = (c.asks ? now : c.opened_at) + patience(*c.destination);
    if (due > now) {
      next = std::min(next, due);
    } else if (overdue.size() < wanted || in_its_own_way(c)) {
      overdue.push_back(&c);
    } else {
      next = std::min(next, now + kLookAgain);
    }
  });
  t.look_at_probes = next;
  for (Connection* c : overdue) {
    const auto waited = std::chrono::duration_cast<seconds>(now - c->opened_at);
    send_close(*c);
    closed(*c, false, ipc::delivery::Trouble::timed_out,
           {mail::Action::deferred,
            "4.4.1",
            "connect to " + c->destination->address.shown() + ": no answer within " + std::to_string(waited.count()) +
                " s, given up early because other mail waits",
            {},
            {}},
           {});
  }
}

const Transport* Model::crowded_with_unproven() const {
  if (options.share_limit == 0) return nullptr;
  for (const auto& [name, t] : transports) {
    if (t->probe_waiting.size() <= options.share_limit) continue;
    const PoolShare* first = t->probe_waiting.front()->shares.front();
    if (first->since + kSoon <= now) return t.get();
  }
  return nullptr;
}

}  // namespace pen::qmgr::scheduler
