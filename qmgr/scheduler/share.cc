/// Shares of the active set: hosts that are slow beside what waits for them must not fill it while others wait.
///
/// A relay host may have the whole active set as long as it takes what it is given: a message that would be delivered
/// before it could come back from the shortest retry log is not parked. Hosts of which nothing says that they work
/// count together: what waits for probes (probes.cc) is parked as well beyond one share. What was given to a
/// connection cannot be parked. So the connections of a host hold no more jobs than one share, two while it answers:
/// where the active set is small, one tarpit's connections could else hold all of it.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr seconds kSoon{5};           // who waits no longer than that is not looked at
constexpr milliseconds kSooner{500};  // at hosts that never did anything for us
constexpr seconds kSurely{60};        // and who waits longer than that needs no estimate
}  // namespace

void Model::note_share(Cluster& c) {
  if (options.share_limit == 0) return;
  if (c.share_count <= options.share_limit) {
    c.crowded.unlink();
  } else if (!c.crowded.linked()) {
    crowded.push_back(c.crowded);
  }
}

bool Model::may_have_more(const Destination& d) const {
  const std::size_t held = d.waiting + d.handed;
  if (held >= 2 * options.share_limit) return false;
  if (d.facts.measured > wall || d.facts.measured + kSoon <= wall) return false;  // silent
  std::int64_t at_once = 1;
  for (const Connection* c : d.connections)
    if (c->state == Connection::State::open) ++at_once;
  return d.facts.service_time * static_cast<std::int64_t>(held) / at_once <= options.backlog_time;
}

bool Model::drains_slowly(const Cluster& c) const {
  const PoolShare* first = c.round.front();
  if (first == nullptr) return false;
  const bool unknown = std::all_of(c.levels.begin(), c.levels.end(), [](const auto& level) {
    return std::all_of(level.begin(), level.end(), [](const auto& m) { return unproven(*m->destination); });
  });
  if (first->since + (unknown ? kSooner : kSoon) > now) return false;
  if (first->since + kSurely <= now) return true;
  double per_second = 0;
  for (const auto& level : c.levels) {
    for (const auto& m : level) {
      const Destination& d = *m->destination;
      if (dead(d) || !measured_lately(d)) continue;
      const bool paced = keeps_pace(d);
      const auto each = std::max(d.facts.service_time, microseconds(100)) +
                        (paced ? microseconds(d.transport->limits.rate_delay) : microseconds(0));
      for (const Connection* k : d.connections) {
        if (k->state != Connection::State::open) continue;
        const double at_once = paced ? 1 : k->window;
        const auto turn = path(*k) + each * static_cast<std::int64_t>(at_once);
        per_second += at_once * 1e6 / static_cast<double>(turn.count());
      }
    }
  }
  return static_cast<double>(c.pooled) > per_second * static_cast<double>(options.share_time.count());
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

std::optional<MessageNumber> Scheduler::excess() const {
  if (const Transport* t = model_->crowded_with_unproven())
    return t->probe_waiting.back()->shares.back()->jobs.back()->message->number;
  const Cluster* found = nullptr;
  // There are at most as many as shares in the active set.
  model_->crowded.for_each([&](const Cluster& c) {
    if (found == nullptr && model_->drains_slowly(c)) found = &c;
  });
  if (found == nullptr) return std::nullopt;
  return found->round.back()->jobs.back()->message->number;
}

bool Scheduler::crowded() const {
  if (!model_->crowded.empty()) return true;
  const std::size_t limit = model_->options.share_limit;
  return limit != 0 && std::any_of(model_->transports.begin(), model_->transports.end(),
                                   [limit](const auto& t) { return t.second->probe_waiting.size() > limit; });
}

}  // namespace pen::qmgr
