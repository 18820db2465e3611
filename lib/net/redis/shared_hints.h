#pragma once
/// Records of one kind in redis, shared by the hosts of a cluster (destdb_backend = redis): hints: to lose one costs a
/// little work and nothing else.
///
/// Use:     SharedHints hints(loop, options, prefix + "verify:",
///                            [](bool shared, const std::string& line) { … "address probes: " + line … });
///          hints.start();
///          auto record = co_await hints.find(key);       // before the work that it may spare
///          hints.tell(key, record, holds_for);  hints.forget(key);
/// Keys:    the prefix, then the caller's key. A record expires with what it says.
/// Away:    find() knows nothing, tell() is lost: each host has its own knowledge all the same.
/// Says:    a line when the server is reached, and one when it is not any more, or not at all.
/// Thread:  the loop's.
#include <functional>
#include <optional>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/net/redis/client.h"

namespace pen::redis {

class SharedHints {
 public:
  static constexpr std::size_t kMostRecord = 4096;  // a longer one is not ours

  using Say = std::function<void(bool shared, const std::string& line)>;

  SharedHints(async::Loop& loop, ClientOptions options, std::string prefix, Say say);
  void start() { client_.start(); }
  /// nullopt: no host knows, or the server is away. Bounded by destdb_redis_timeout; the first ones wait for the
  /// connection.
  async::Task<std::optional<std::string>> find(std::string key);
  void tell(const std::string& key, const std::string& record, seconds holds_for);
  void forget(const std::string& key);
  bool is_up() const { return client_.is_up(); }

 private:
  async::Loop& loop_;
  std::string prefix_;
  async::Event settled_;  // the first connection is there, or has failed
  Client client_;
};

}  // namespace pen::redis
