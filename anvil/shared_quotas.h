#pragma once
/// Quotas that the hosts of a cluster count together, in redis (destdb_backend = redis).
///
/// Use:     SharedQuotas shared(loop, memory, options, prefix, say);  shared.start();
///          auto answer = co_await shared.ask(question);      // memory is ready
/// Keys:    destdb_redis_prefix, "quota:", the user's name: a hash of the beginnings and counts of its hour and its
///          day, by the server's clock. It expires with the day.
/// Counted: by a script, so that many sessions at many hosts never send more than the limit. What it says of all
///          hosts is learnt here too: a user who has used up a limit is refused without a question.
/// Away:    each host counts by itself, from what was known of all. What is counted meanwhile is not told later.
/// Bounds:  a question waits for destdb_redis_timeout at most; kMostUnderWay are asked at once, further ones are
///          counted here alone.
/// Thread:  the loop's. The memory outlives it.
#include <optional>
#include <string>
#include <vector>

#include "anvil/memory.h"
#include "lib/net/redis/client.h"
#include "lib/net/redis/shared_hints.h"

namespace pen::anvil {

class SharedQuotas {
 public:
  static constexpr std::size_t kMostUnderWay = 500;

  SharedQuotas(async::Loop& loop, Memory& memory, redis::ClientOptions options, std::string prefix,
               redis::SharedHints::Say say);
  void start() { client_.start(); }
  async::Task<Quotas::Answer> ask(Quotas::Question question);

 private:
  async::Task<std::optional<redis::Reply>> ask_server(const Quotas::Question& question);

  async::Loop& loop_;
  Memory& memory_;
  std::string prefix_;
  std::size_t under_way_ = 0;
  std::string script_;  // its name at the server
  redis::Client client_;
};

/// The server's reply about a question, taken apart.
struct QuotaReply {
  struct Used {
    Quotas::Sent hour, day;
  };
  Quotas::Answer answer;
  std::vector<Used> users;  // as in the question, without those that are not counted
};
/// nullopt: it is no such reply.
std::optional<QuotaReply> quota_reply(const redis::Reply& reply, const Quotas::Question& question);

}  // namespace pen::anvil
