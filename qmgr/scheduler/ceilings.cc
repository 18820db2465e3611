/// What a host tolerates, learned and tried again now and then; how fast it is beside others.
///
/// A peer that has closed twice in a row after the same number of messages is believed: later connections are closed
/// by us before that. After ceiling_time one connection may carry twice as many. (Connections at once: clusters.cc.)
/// A host that is much slower than the best of its level is passed over while those have room: busy for longer, its
/// connections would else be the ones that are open, and draw more than their share. Its measure is believed for
/// ceiling_time, then it is tried like the others.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::uint32_t kEnough = 1000;  // who takes so many has no ceiling worth keeping
constexpr int kSlowFactor = 3;
constexpr milliseconds kSlowFloor{50};  // differences below this are noise
// Who was not measured lately is taken for so fast: beside a host that is slower than most it is worth a try.
constexpr milliseconds kUnmeasured{150};
}  // namespace

std::uint64_t Model::quota_of(Destination& d) {
  destdb::Facts& f = d.facts;
  if (f.messages_per_connection == 0) return 0;
  if (wall < f.messages_until) return f.messages_per_connection;
  f.messages_until = wall + options.ceiling_time;  // one probe at a time
  return std::uint64_t{f.messages_per_connection} * 2;
}

void Model::learn_clear_text(Destination& d) {
  WallTime& until = d.facts.clear_text_until;
  if (until > wall) return;  // connections of the same time meet the same trouble
  const bool again = until != WallTime{} && wall < until + std::chrono::hours(24);
  until = wall + (again ? options.clear_text_again : options.clear_text_first);
}

void Model::learn_quota(Destination& d, std::uint64_t done) {
  destdb::Facts& f = d.facts;
  const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(done, kEnough));
  const bool probe = f.messages_per_connection > 0 && n >= f.messages_per_connection;
  if (probe || f.closed_after == n) {
    f.messages_per_connection = n < kEnough ? n : 0;
    f.messages_until = wall + options.ceiling_time;
  }
  f.closed_after = n;
}

void Model::measured(Connection& c, microseconds since_begun) {
  destdb::Facts& f = c.destination->facts;
  f.service_time = service_time(c, since_begun);
  f.measured = wall;
  ++c.done;
  if (f.messages_per_connection > 0 && c.done > f.messages_per_connection)
    f.messages_per_connection = c.done < kEnough ? static_cast<std::uint32_t>(c.done) : 0;
}

bool Model::measured_lately(const Destination& d) const {
  return d.facts.measured <= wall && d.facts.measured + options.ceiling_time > wall;
}

bool Model::slow(const Destination& d, microseconds best) {
  return best.count() > 0 && much_longer(d.facts.service_time, best);
}

bool Model::much_longer(microseconds time, microseconds best) { return time > best * kSlowFactor + kSlowFloor; }

microseconds Model::best_service_time(const std::vector<std::unique_ptr<Member>>& level) const {
  microseconds best = microseconds::max();
  std::size_t working = 0;
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    if (dead(d)) continue;
    ++working;
    const bool known = measured_lately(d) && d.facts.service_time.count() > 0;
    best = std::min(best, known ? d.facts.service_time : microseconds(kUnmeasured));
  }
  return working > 1 ? best : microseconds(0);
}

void Model::retire_spent() {
  while (!spent.empty()) {
    const auto it = connections.find(spent.back());
    spent.pop_back();
    if (it != connections.end()) retire(*it->second);
  }
}

}  // namespace pen::qmgr::scheduler
