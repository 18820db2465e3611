#pragma once
/// A destination: a host at an address, or anything else that a delivery program connects to, with what destdb knows of
/// it and what was learned since. Equal keys are one destination (ipc::Destination::key()).
///
/// Owned:    by Routes, while a cluster or connection refers to it or its rate delay lasts.
/// Changed:  facts by back_off.h, ceilings.h, host_order.h, speed.h and paying.h; connections by connections.cc; yield
///           by paying.h; paused_until by rate_delay.h; session_class by session_classes.h; elsewhere by elsewhere.cc.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/queue/destdb/facts.h"
#include "lib/suite/ipc/delivery.h"
#include "qmgr/scheduler/cluster.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/transport.h"

namespace pen::qmgr::scheduler {

struct Connection;
struct SessionClass;
struct Group;

inline constexpr std::uint32_t kNoLimit = 1'000'000;  // of connections to one destination

/// How many messages per second so many connections to a destination bring (paying.h).
struct Yield {
  SteadyTime since{};             // of the measure under way
  std::uint32_t connections = 0;  // busy since then
  std::uint32_t results = 0;      // since then
  double rate = 0;                // results per second, of the last measure that nothing was tried in
  std::uint32_t tried = 0;        // connections that a trial allows; 0: there is none
  std::uint32_t compared = 0;     // those that rate was measured with
  std::uint32_t before = 0;       // what was known to pay
};

struct Destination {
  std::string key;
  std::string host_key;  // of the host's facts, which all sources share; empty: it has no source
  ipc::Destination address;
  Transport* transport = nullptr;
  destdb::Facts facts;
  bool known = false;                    // a record exists in destdb
  std::string suspended;                 // why nothing goes there; empty: it may
  SteadyTime judged{};                   // when that was found
  std::uint32_t broken_off = 0;          // messages in a row at which it broke off a transaction
  std::uint64_t broken_at = 0;           // the number of the last one
  WallTime broke_off{};                  // and when
  std::vector<Connection*> connections;  // that can take jobs, oldest first
  std::uint32_t open = 0;                // of them, those that are open and not only being opened
  std::uint32_t holding = 0;             // connections not yet closed, those that take no more jobs included
  std::size_t waiting = 0;               // jobs on their backlogs that were not handed out
  std::uint32_t handed = 0;              // jobs in hand
  // Of late (speed.h): how long a job took that found its connection's flow dry, how much of that was the path's,
  // and whether two results of a flow have separated these two times.
  microseconds dry_time{0}, path{0};
  bool told_apart = false;
  std::uint32_t window = 0;  // of the connection that was opened last; 0: none was
  Yield yield;
  std::uint32_t allowance = 0;            // connections that it may have by what it has taken so far; 0: any number
  std::uint32_t most_lately = 0;          // connections open at once, as limits.h remembers it
  WallTime most_until{};                  // and for how long
  std::uint32_t elsewhere = 0;            // connections of other hosts
  SteadyTime heard_until{};               // until when that is taken for true
  SteadyTime refused_until{};             // until then: other hosts had its last connection
  bool denied = false;                    // and Scheduler::look_again() will say when a try is worth while
  SteadyTime paused_until{};              // rate delay; in RateDelay until then
  SessionClass* session_class = nullptr;  // nullptr: connections need no lease
  Node<Destination> in_class_line{this};
  Group* provider = nullptr;  // of its host; nullptr: none is known
  std::string group;          // of the route that led here last; for people
  Node<Destination> in_provider{this};
  List<Member> hungry;
  List<Member> starved;
  std::size_t references = 0;  // clusters
};

}  // namespace pen::qmgr::scheduler
