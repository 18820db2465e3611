#pragma once
/// What Pools keeps of servers. For Pools and LookUp, under the lock of Pools.
#include "lib/map/database_pool.h"

namespace pen::map::database {

struct Pools::Host {
  struct Rest {
    std::unique_ptr<Connection> connection;
    SteadyTime close_at;
  };
  std::string name;
  bool socket = false;
  SteadyTime retry_at{};  // not tried before
  std::chrono::nanoseconds back_off{0};
  std::vector<Rest> idle;  // the one used last is at the end
};

struct Pools::Pool {
  std::string type;
  Driver* driver = nullptr;
  std::vector<std::unique_ptr<Host>> hosts;
  std::chrono::nanoseconds idle_interval{}, retry_interval{};
  std::size_t open = 0;  // connections, those being made among them
  SteadyTime answered{};
  SteadyTime failed{};  // when all hosts failed last
  Error failure = Error(MapError::unreadable);
};

}  // namespace pen::map::database
