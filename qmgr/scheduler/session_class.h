#pragma once
/// A class of hosts with limited sessions, as far as it is known here: which jobs want one, which connections could
/// give one up.
///
/// Owned:    by SessionClasses, for good: a class outlives its destinations.
/// Changed:  by session_classes.h; idle by connections.cc.
#include <cstdint>

#include "qmgr/scheduler/connection.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/list.h"

namespace pen::qmgr::scheduler {

struct SessionClass {
  std::uint32_t number = 0;
  bool full = false;          // one was refused; until session_room()
  std::uint32_t asking = 0;   // connections that wait for their lease
  List<Destination> waiting;  // want a connection, first come first served
  std::size_t waiting_count = 0;
  Destination* turn = nullptr;  // may open one although others wait
  List<Connection> idle;        // longest idle first
  std::size_t closing = 0;      // idle ones closed for those that wait
  bool dirty = false;
};

}  // namespace pen::qmgr::scheduler
