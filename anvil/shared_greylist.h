#pragma once
/// The greylist beside those of other hosts of a cluster, through redis (destdb_backend = redis).
///
/// Use:     SharedGreylist shared(loop, memory, options, prefix);  shared.start();
///          auto answer = co_await shared.ask(question);      // memory is ready
/// Keys:    destdb_redis_prefix, "greylist:", kind and digest in hexadecimal. A record expires with what it says.
/// Asked:   redis, about clients that would be put off by what is known here. A client that passes here waits for
///          nothing.
/// Bounds:  a question waits for destdb_redis_timeout at most; kMostUnderWay are asked about at once, further ones are
///          answered from what is known here.
/// Thread:  the loop's. The memory outlives it.
#include "anvil/memory.h"
#include "lib/net/redis/shared_hints.h"

namespace pen::anvil {

class SharedGreylist {
 public:
  static constexpr std::size_t kMostUnderWay = 500;

  SharedGreylist(async::Loop& loop, Memory& memory, redis::ClientOptions options, const std::string& prefix,
                 redis::SharedHints::Say say);
  void start() { hints_.start(); }
  async::Task<Greylist::Answer> ask(Greylist::Question question);
  std::uint64_t learnt() const { return learnt_; }

 private:
  async::Task<void> learn(std::string key);

  async::Loop& loop_;
  Memory& memory_;
  redis::SharedHints hints_;
  std::size_t under_way_ = 0;
  std::uint64_t learnt_ = 0;
};

}  // namespace pen::anvil
