#pragma once
/// A connection to a destination: the jobs that wait on it (its backlog) and those in hand of its delivery program.
///
/// Owned:    by Model::connections, from OpenConnection until it is closed.
/// Changed:  by connections.cc; last_done, flow_begun, in_flow and flows_since by speed.h.
#include <cstdint>
#include <vector>

#include "lib/base/time.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/job.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/party.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

/// A job that waits so long behind another one without a result may be done sooner elsewhere.
inline constexpr seconds kStuckPatience{1};

struct Connection {
  enum class State : std::uint8_t { opening, open, retiring };
  ConnectionNumber number = 0;  // rises: a later connection has a higher number
  Destination* destination = nullptr;
  State state = State::opening;
  std::uint32_t window = 1;       // jobs that its program takes at once
  microseconds round_trip{0};     // of the handshake: a proxy nearer than the peer may have answered
  SteadyTime last_done = kNever;  // the last result came; kNever: none has
  SteadyTime flow_begun{};        // its flow was dry before: when the first job of it was begun
  std::uint32_t in_flow = 0;      // results since then
  SteadyTime flows_since{};       // results come at the host's pace from then on (Speed::pace())
  SteadyTime opened_at{};         // until it is open: when it was begun
  SteadyTime idle_since{};
  std::size_t waiting = 0;
  SteadyTime waits_since{};  // of those that wait: when the first came, or the last result
  bool stuck = false;        // they were taken off it, and no result has come since
  std::vector<Job*> handed;
  std::uint64_t done = 0;
  std::uint64_t served = 0;  // of them, those of which it took or refused something for good
  bool cut_short = false;    // it ended within a transaction
  std::uint64_t quota = 0;   // jobs after which it is closed, before the peer does; 0: none
  Cluster* last_cluster = nullptr;
  UrgencyRound<ConnectionShare> round;
  std::vector<std::pair<Tenant*, std::uint32_t>> tenants;  // those with jobs on it, and of how many parties
  bool from_pool = true;                                   // where its last job came from, if there was a choice
  bool close_sent = false;
  bool yields = false;   // it closes so that something urgent gets its worker
  bool asks = false;     // for a lease of its session class
  bool in_turn = false;  // and was first in line for it
  Node<Connection> in_probes{this};
  Node<Connection> in_idle{this};
  Node<Connection> in_class_idle{this};
  Node<Connection> in_age{this};
  Node<Connection> in_waits{this};
  Node<Connection> in_all{this};
  std::size_t jobs() const { return waiting + handed.size(); }
  bool spent() const { return quota > 0 && done + handed.size() >= quota; }
};

}  // namespace pen::qmgr::scheduler
