#pragma once
/// What keeps two hosts from running one queue: a lock in the shared directory, or a lease in redis (docs/standby.md).
///
/// Use:     auto lease = Lease::make(loop, config);      // nullptr: standby_lease = none
///          co_await lease->acquire([](const std::string& why) { … });
///          Error why = co_await lease->keep();           // returns when the lease is lost
///          co_await lease->release();                    // at a stop: the next one need not wait
/// Rules:   the time of a lease begins when it was asked for, and ends for this host a tenth before it does in redis.
///          With a lock there is such a time too: nobody tells a host that its lock is gone, so it writes into the file
///          again and again, and waits for the sync.
///          Where a former holder may still believe in its lease (redis has lost the key), the new one waits for as
///          long as that could hold.
/// Owns:    its connection and its lock; page() is for qmgr.
/// Thread:  the loop's. A file system that hangs holds it up; the memory for qmgr runs out meanwhile.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/loop.h"
#include "lib/config/config.h"
#include "lib/net/redis/client.h"
#include "lib/suite/service/lease_page.h"

namespace pen::master {

enum class LeaseError { lost = 1, taken };
inline std::string_view error_module(LeaseError) { return "lease"; }
inline std::string_view describe(LeaseError e) {
  return e == LeaseError::taken ? "another host has the lease" : "the lease could not be renewed in time";
}

class Lease {
 public:
  using Tell = std::function<void(const std::string& why)>;
  /// By the settings; nullptr: standby_lease = none. Waits for nothing. Errors: of the settings for redis; errno.
  static Result<std::unique_ptr<Lease>> make(async::Loop& loop, const config::Config& config);
  virtual ~Lease() = default;
  /// Returns when the lease is ours. tell: is given what it waits for, each time that it is something else.
  virtual async::Task<void> acquire(Tell tell) = 0;
  /// Renews it, and returns when it is lost, with the reason.
  virtual async::Task<Error> keep() = 0;
  /// Gives it back, so that the next host need not wait. Errors cost that host the rest of the time alone.
  virtual async::Task<void> release() = 0;
  /// Memory that says until when the lease holds.
  virtual int page() const = 0;
  /// For the next master of this host: what it was given, a lock, and the memory.
  virtual std::string token() const = 0;
  virtual Result<void> resume(const std::string& token, Fd held, Fd page) = 0;
  /// A descriptor that has a lock; -1: there is none.
  virtual int held() const { return -1; }
};

}  // namespace pen::master
