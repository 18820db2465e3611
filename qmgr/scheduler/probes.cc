#include "qmgr/scheduler/probes.h"

#include <algorithm>
#include <unordered_map>

namespace pen::qmgr::scheduler {

namespace {
constexpr std::uint32_t kShare = 8;  // one in so many workers
constexpr std::uint32_t kLeast = 3;  // of a handful
constexpr seconds kPatience{4};
constexpr std::uint32_t kMostDoublings = 8;
constexpr seconds kLookAgain{1};  // at probes that need not be given up yet

/// How many probes may be on the way while others want workers.
std::uint32_t share_of(const Transport& t) {
  return std::max(t.limits.workers / kShare, std::min(t.limits.workers, kLeast));
}

microseconds patience(const Destination& d) {
  return kPatience * (std::int64_t{1} << std::min(d.facts.failures, kMostDoublings));
}
}  // namespace

std::uint32_t Probes::free(const Transport& t) {
  const std::uint32_t workers = t.free();
  if (t.limits.workers == 0) return workers;
  const std::uint32_t share = share_of(t);
  const std::uint32_t half = t.limits.workers / 2;
  return std::min(workers, std::max(share > t.probing ? share - t.probing : 0, workers > half ? workers - half : 0));
}

void Probes::begin(Connection& c) const {
  Transport& t = *c.destination->transport;
  c.opened_at = clock_.now;
  t.probes.push_back(c.in_probes);
  ++t.probing;
  t.look_at_probes = std::min(t.look_at_probes, clock_.now + patience(*c.destination));
}

void Probes::end(Connection& c) const {
  if (!c.in_probes.linked()) return;
  Transport& t = *c.destination->transport;
  c.in_probes.unlink();
  if (--t.probing == 0) t.look_at_probes = kNever;
  to_serve_.mark(t);
}

std::vector<Connection*> Probes::overdue(Transport& t, bool moves) const {
  const std::size_t wanted = moves ? t.wanted_probes + (t.free() == 0 ? t.waiting.size() : 0) : 0;
  // A party that waits while workers are free holds its share of them, and among those the probes that bring it
  // nothing.
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
  std::vector<Connection*> found;
  SteadyTime next = kNever;
  t.probes.for_each([&](Connection& c) {
    // A probe that still asks for its session lease has not begun.
    const SteadyTime due = (c.asks ? clock_.now : c.opened_at) + patience(*c.destination);
    if (due > clock_.now) {
      next = std::min(next, due);
    } else if (found.size() < wanted || in_its_own_way(c)) {
      found.push_back(&c);
    } else {
      next = std::min(next, clock_.now + kLookAgain);
    }
  });
  t.look_at_probes = next;
  return found;
}

mail::DeliveryStatus Probes::given_up(const Connection& c) const {
  const auto waited = std::chrono::duration_cast<seconds>(clock_.now - c.opened_at);
  return {mail::Action::deferred,
          "4.4.1",
          "connect to " + c.destination->address.shown() + ": no answer within " + std::to_string(waited.count()) +
              " s, given up early because other mail waits",
          {},
          {}};
}

}  // namespace pen::qmgr::scheduler
