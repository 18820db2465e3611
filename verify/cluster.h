#pragma once
/// The answers of probes in redis, shared by the hosts of a cluster (destdb_backend = redis).
///
/// Use:     Cluster cluster(loop, options, prefix);  cluster.start();
///          auto record = co_await cluster.find(key);       // before a probe
///          cluster.tell(key, record, holds_for);  cluster.forget(key);
/// Keys:    destdb_redis_prefix, "verify:", the address in lower case. A record expires with the answer.
/// Away:    find() knows nothing, tell() is lost: each host has its own answers all the same.
/// Logs:    once when the server is not reached, once when it is.
/// Thread:  the loop's.
#include <optional>
#include <string>

#include "lib/async/sync.h"
#include "lib/redis/client.h"

namespace pen::verify {

class Cluster {
 public:
  static constexpr std::size_t kMostRecord = 4096;  // a longer one is none of ours

  Cluster(async::Loop& loop, redis::ClientOptions options, std::string prefix);
  void start() { client_.start(); }
  /// nullopt: no host knows, or the server is away. Bounded by destdb_redis_timeout; the first ones wait for the
  /// connection.
  async::Task<std::optional<std::string>> find(std::string key);
  void tell(const std::string& key, const std::string& record, seconds holds_for);
  void forget(const std::string& key);
  bool is_up() const { return client_.is_up(); }

 private:
  std::string name_of(const std::string& key) const { return prefix_ + "verify:" + key; }
  async::Loop& loop_;
  std::string prefix_;
  async::Event settled_;  // the first connection is there, or has failed
  redis::Client client_;
};

}  // namespace pen::verify
