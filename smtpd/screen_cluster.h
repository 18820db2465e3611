#pragma once
/// The clients that passed, in redis, shared by the hosts of a cluster (destdb_backend = redis).
///
/// Use:     ScreenCluster cluster(loop, screener, options, prefix);  cluster.start();
/// Keys:    destdb_redis_prefix, "triage:", the address. A record expires with its last pass.
/// Asked:   about clients that would be tested; what another host knows of them counts here too.
/// Away:    nothing is known, and what is learnt is lost for the others; nobody waits for a connection.
/// Logs:    once when the server is not reached, once when it is.
/// Thread:  the loop's. The screener outlives it.
#include <optional>
#include <string>

#include "lib/net/redis/shared_hints.h"
#include "smtpd/screener.h"

namespace pen::smtpd {

class ScreenCluster {
 public:
  ScreenCluster(async::Loop& loop, Screener& screener, redis::ClientOptions options, std::string prefix);
  void start() { hints_.start(); }

 private:
  /// Bounded by destdb_redis_timeout.
  static async::Task<std::optional<triage::Record>> find(ScreenCluster* cluster, std::string key);
  void tell(const std::string& key, const triage::Record& record);

  async::Loop& loop_;
  redis::SharedHints hints_;
};

}  // namespace pen::smtpd
