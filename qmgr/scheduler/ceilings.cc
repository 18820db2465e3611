#include "qmgr/scheduler/ceilings.h"

#include <algorithm>

namespace pen::qmgr::scheduler {

namespace {
constexpr std::uint32_t kEnough = 1000;  // a host that takes so many has no ceiling worth keeping
constexpr std::chrono::hours kMeantIt{24};
}  // namespace

std::uint64_t Ceilings::quota_of(Destination& d) const {
  destdb::Facts& f = d.facts;
  if (f.messages_per_connection == 0) return 0;
  if (clock_.wall < f.messages_until) return f.messages_per_connection;
  f.messages_until = clock_.wall + options_.ceiling_time;  // one probe at a time
  return std::uint64_t{f.messages_per_connection} * 2;
}

void Ceilings::learn_quota(Destination& d, std::uint64_t done) const {
  destdb::Facts& f = d.facts;
  const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(done, kEnough));
  const bool probe = f.messages_per_connection > 0 && n >= f.messages_per_connection;
  if (probe || f.closed_after == n) {
    f.messages_per_connection = n < kEnough ? n : 0;
    f.messages_until = clock_.wall + options_.ceiling_time;
  }
  f.closed_after = n;
}

void Ceilings::carried_one_more(Connection& c) const {
  destdb::Facts& f = c.destination->facts;
  ++c.done;
  if (f.messages_per_connection > 0 && c.done > f.messages_per_connection)
    f.messages_per_connection = c.done < kEnough ? static_cast<std::uint32_t>(c.done) : 0;
}

std::optional<ConnectionNumber> Ceilings::take_spent() {
  if (spent_.empty()) return std::nullopt;
  const ConnectionNumber number = spent_.back();
  spent_.pop_back();
  return number;
}

std::uint32_t Ceilings::connections(const Destination& d) const {
  if (d.facts.tolerated_connections == 0) return 0;
  return d.facts.tolerated_connections + (clock_.wall >= d.facts.tolerated_until ? 1U : 0U);
}

void Ceilings::refused_one_more(Destination& d) const {
  d.facts.tolerated_connections = static_cast<std::uint32_t>(d.connections.size()) + d.elsewhere;
  d.facts.tolerated_until = clock_.wall + options_.ceiling_time;
}

void Ceilings::bears(Destination& d, std::uint32_t in_use) const {
  if (d.facts.tolerated_connections > 0 && in_use > d.facts.tolerated_connections)
    d.facts.tolerated_connections = in_use;  // the probe was accepted
}

void Ceilings::learn_clear_text(Destination& d) const {
  WallTime& until = d.facts.clear_text_until;
  if (until > clock_.wall) return;  // connections of the same time meet the same trouble
  const bool again = until != WallTime{} && clock_.wall < until + kMeantIt;
  until = clock_.wall + (again ? options_.clear_text_again : options_.clear_text_first);
}

void Ceilings::learn_step_by_step(Destination& d) const {
  WallTime& until = d.facts.step_by_step_until;
  // A single time may have been a line that went dead, or a restart of the peer.
  const bool again = until != WallTime{} && clock_.wall < until + kMeantIt;
  until = clock_.wall + (again ? options_.step_by_step_again : options_.step_by_step_first);
}

}  // namespace pen::qmgr::scheduler
