#pragma once
/// The conversation with the redis server about rates that the hosts of a cluster keep together. The core is
/// lib/queue/shaping/shared_rates.h; SharedDestinations owns the connection.
///
/// Use:     the client's greeting ends with scripts(); went_up() gets its replies to them; run() after each change, and
///          at next_wake().
/// Keys:    <prefix>r:<key> in redis, a hash: `d` when the next message is due, `l` what was learned, `u` when, `v` its
///          version.
/// Errors:  a reply that makes no sense goes to give_up, which ends the connection.
/// Thread:  the loop's.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/net/redis/client.h"
#include "lib/queue/shaping/shared_rates.h"

namespace pen::qmgr {

class ClusterRates {
 public:
  struct Options {
    std::function<std::string(const std::string& key)> name;  // in redis
    /// What the server says makes no sense, or it refuses.
    std::function<void(Error)> give_up;
    /// Something is to be sent, or there are effects: run() is called soon.
    std::function<void()> wake;
  };
  ClusterRates(redis::Client& client, Options options) : client_(client), options_(std::move(options)) {}

  static std::vector<std::vector<std::string>> scripts();
  static constexpr std::size_t kScripts = 2;
  /// False: these are no replies to scripts().
  bool went_up(std::span<const redis::Reply> replies, std::uint32_t hosts, SteadyTime now);

  shaping::SharedRates& rates() { return rates_; }
  /// Sends what is to be sent. The effects are the caller's to carry out.
  void run(SteadyTime now);

 private:
  void send(const shaping::SharedRates::Ask& ask);
  void send(const shaping::SharedRates::Tell& tell);

  redis::Client& client_;
  Options options_;
  shaping::SharedRates rates_{{}};
  std::string rate_script_, learned_script_;
};

/// The reply to kRateScript; nullopt: it is no such reply. wanted: tokens that were asked for.
std::optional<shaping::SharedRates::Answer> rate_reply(const redis::Reply& reply, std::uint32_t wanted);
struct LearnedReply {
  std::uint64_t version = 0;
  bool newest = false;
};
/// The reply to kLearnedScript.
std::optional<LearnedReply> learned_reply(const redis::Reply& reply);

}  // namespace pen::qmgr
