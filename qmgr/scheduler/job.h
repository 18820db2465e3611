#pragma once
/// A job: recipients of one message that are delivered together. Where a job can be (Job::Place): forming, pooled in
/// its cluster, on a connection's backlog, handed out, or waiting to run alone.
///
/// Owned:    by Model::jobs.
/// Changed:  made by routing.cc and next_host.cc; place, share and connection by pool.h and connections.cc.
#include <cstdint>

#include "lib/base/time.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/ordinals.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

struct Message;
struct RouteSet;
struct PoolShare;
struct Connection;
struct GateShare;

struct Job {
  enum class Place : std::uint8_t { forming, gated, pooled, backlog, handed, alone };
  explicit Job(std::uint32_t ordinal) : ordinals(ordinal) {}
  JobNumber number = 0;
  Message* message = nullptr;
  RouteSet* route = nullptr;
  JobOrdinals ordinals;
  SteadyTime expiry = kNever;
  SteadyTime formed{};
  Place place = Place::forming;
  bool isolated = false;
  bool rewritten = false;           // its recipients get the message with a rewritten sender
  bool several = false;             // its recipients have different next hops
  std::uint16_t sessions = 0;       // hosts that did not take its recipients in this round
  const void* joined_by = nullptr;  // its key in Message::joinable; nullptr: it is not there
  PoolShare* share = nullptr;
  Connection* connection = nullptr;
  GateShare* gated = nullptr;  // it waits at a gate (gate.h)
  std::uint8_t passed = 0;     // kinds of gates that count it as one that has passed
  std::uint8_t under_way = 0;  // or as one that is under way
  bool had_turn = false;       // at a gate: it stands in no other line for its place
  Node<Job> in_message{this};
  Node<Job> in_line{this};     // forming list of the message, pool share, or a connection's share
  Node<Job> in_forming{this};  // the list of all forming jobs, oldest first
};

}  // namespace pen::qmgr::scheduler
