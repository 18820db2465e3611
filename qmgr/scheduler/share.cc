#include "qmgr/scheduler/share.h"

#include <algorithm>

#include "qmgr/scheduler/message.h"
#include "qmgr/scheduler/probes.h"
#include "qmgr/scheduler/rate_delay.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr seconds kSoon{5};           // mail that waits no longer than that is not looked at
constexpr milliseconds kSooner{500};  // at hosts that never did anything for us
constexpr seconds kSurely{60};        // and mail that waits longer than that needs no estimate
}  // namespace

void Shares::note(Cluster& c) {
  if (options_.share_limit == 0) return;
  if (c.share_count <= options_.share_limit) {
    c.crowded.unlink();
  } else if (!c.crowded.linked()) {
    crowded_.push_back(c.crowded);
  }
}

bool Shares::may_have_more(const Destination& d) const {
  const std::size_t held = d.waiting + d.handed;
  if (held >= 2 * options_.share_limit) return false;
  if (d.facts.measured > clock_.wall || d.facts.measured + kSoon <= clock_.wall) return false;  // silent
  std::int64_t at_once = 1;
  for (const Connection* c : d.connections)
    if (c->state == Connection::State::open) ++at_once;
  return d.facts.service_time * static_cast<std::int64_t>(held) / at_once <= options_.backlog_time;
}

bool Shares::drains_slowly(const Cluster& c) const {
  const PoolShare* first = c.round.front();
  if (first == nullptr) return false;
  const bool unknown = std::all_of(c.levels.begin(), c.levels.end(), [](const auto& level) {
    return std::all_of(level.begin(), level.end(), [](const auto& m) { return Probes::unproven(*m->destination); });
  });
  if (first->since + (unknown ? kSooner : kSoon) > clock_.now) return false;
  if (first->since + kSurely <= clock_.now) return true;
  double per_second = 0;
  for (const auto& level : c.levels) {
    for (const auto& m : level) {
      const Destination& d = *m->destination;
      if (back_off_.dead(d) || !speed_.measured_lately(d)) continue;
      const bool paced = RateDelay::keeps_pace(d);
      const auto each = std::max(d.facts.service_time, microseconds(100)) +
                        (paced ? microseconds(d.transport->limits.rate_delay) : microseconds(0));
      for (const Connection* k : d.connections) {
        if (k->state != Connection::State::open) continue;
        const double at_once = paced ? 1 : k->window;
        const auto turn = Speed::path(*k) + each * static_cast<std::int64_t>(at_once);
        per_second += at_once * 1e6 / static_cast<double>(turn.count());
      }
    }
  }
  return static_cast<double>(c.pooled) > per_second * static_cast<double>(options_.share_time.count());
}

std::optional<MessageNumber> Shares::excess() const {
  const Cluster* found = nullptr;
  // There are at most as many as shares in the active set.
  crowded_.for_each([&](const Cluster& c) {
    if (found == nullptr && drains_slowly(c)) found = &c;
  });
  if (found == nullptr) return std::nullopt;
  return found->round.back()->jobs.back()->message->number;
}

bool Shares::crowded(const Transport& t) const {
  return options_.share_limit != 0 && t.probe_waiting.size() > options_.share_limit;
}

std::optional<MessageNumber> Shares::excess(const Transport& t) const {
  if (!crowded(t) || t.probe_waiting.front()->shares.front()->since + kSoon > clock_.now) return std::nullopt;
  return t.probe_waiting.back()->shares.back()->jobs.back()->message->number;
}

}  // namespace pen::qmgr::scheduler
