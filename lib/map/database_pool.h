#pragma once
/// The connections of this process to databases, shared by all tables with the same servers and login, and by all
/// sessions.
///
/// Use:     Pools::of_process().look_up(table, key, asked_at)        waits in the calling thread
///          or a LookUp (database_look_up.h), for callers that wait in a loop: both are the same steps.
/// Hosts:   in the table's order, sockets before TCP hosts and these at random; a host with a connection at rest comes
///          first. If one cannot be reached, or does not answer in its share of the time, or refuses the question, the
///          next is asked at once. A host that failed where another answered, or that cannot be reached, is left out
///          for a time that doubles up to retry_interval. A question that all hosts refuse is at fault itself. An only
///          host is always tried, unless the table has a backup.
/// A dead server costs one time-out: what waits for a connection when the last host fails is answered with that failure
///          too, if nothing was answered since that attempt began.
/// Bounds:  Limits: connections per pool and in all, the time of a look-up. Beyond the bound of all, each pool may have
///          one: a table's file is an administrator's, so there are few pools.
/// Errors:  unreadable, too_large: always "try again later".
/// Thread:  any. No call into a driver and no end of a connection is under a lock.
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/map/database_table.h"

namespace pen::map::database {

class LookUp;

class Pools {
 public:
  struct Limits {
    std::size_t per_pool = 8;                        // a server answers some thousand questions a second over so many
    std::size_t in_all = 64;                         // but for the first of each pool
    std::chrono::nanoseconds connect = seconds(10);  // of one host
    std::chrono::nanoseconds first_back_off = seconds(1);
  };
  using FindDriver = std::function<Result<Driver*>(const std::string& type)>;

  Pools(const Clock& clock, FindDriver drivers, Limits limits, std::uint64_t seed);
  ~Pools();
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;
  /// With the modules beside the program, and a thread that closes what was idle too long.
  static Pools& of_process();

  const Limits& limits() const { return limits_; }
  using TablePtr = std::shared_ptr<const Table>;
  /// since: when the question was asked. Blocks, for the table's patience from then on at most.
  Value look_up(TablePtr table, std::string key, SteadyTime since);
  /// Puts a value under the key, for memcache.
  Result<void> store(TablePtr table, std::string key, std::string value, SteadyTime since);
  /// Closes connections that were idle for their table's idle_interval. Returns when to call it again; kNever: when a
  /// look-up has been made.
  SteadyTime close_idle();

  struct Counts {
    std::size_t pools = 0, open = 0, idle = 0;
    std::uint64_t connects = 0, failures = 0;
  };
  Counts counts() const;

 private:
  friend class LookUp;
  struct Host;
  struct Pool;

  Value finish(LookUp& look_up);
  Pool& pool_of(const Table& table);
  std::vector<Host*> order(Pool& pool, bool leave_out_only_host);
  std::unique_ptr<Connection> idle_of(Host& host);
  bool make_room(Pool& pool, std::vector<std::unique_ptr<Connection>>& closed);
  void tell_room();

  const Clock& clock_;
  FindDriver drivers_;
  Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable room_;   // a connection came free, or a pool failed
  std::uint64_t room_told_ = 0;    // how often
  std::set<LookUp*> waiting_;      // for the same, each with a function to call
  std::condition_variable idled_;  // for the thread that closes
  Random random_;
  std::map<std::string, std::unique_ptr<Pool>> pools_;
  std::size_t open_ = 0;
  SteadyTime wake_at_ = kNever;  // of the thread that closes
  Counts counts_;
};

}  // namespace pen::map::database
