#pragma once
/// The destination database with destdb_backend = redis: own knowledge, corrected by what other hosts say.
///
/// The scheduler asks this Table; the file's answer comes at once, as without a cluster. What a connection may be
/// opened for is asked of the redis server first, for a fifth of a second at most; without a server nothing is asked.
/// The core is lib/queue/destdb/sharing.h, the connection lib/net/redis/client.h; this brings them together with the
/// manager. The rates that hosts keep together go over the same connection (cluster_rates.h).
///
/// Use:     SharedDestinations shared(loop, options, own);  scheduler over shared;  shared.start(manager);
///          ask_share() for every connection that is to be opened, gone() for one that is closed or wanted no more;
///          leave() at the end, so that the others need not wait for the leases to run out.
/// Owns:    the connection to the server. loop, own and the manager must outlive it.
/// Logs:    once when the server is not reached, once when it is.
/// Thread:  the loop's.
#include <string>

#include "lib/base/async/loop.h"
#include "lib/map/match_list.h"
#include "lib/net/redis/client.h"
#include "lib/queue/destdb/destdb.h"
#include "lib/queue/destdb/sharing.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/destinations.h"
#include "qmgr/cluster_rates.h"
#include "qmgr/cluster_replies.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {

class Manager;

class SharedDestinations final : public destdb::Table {
 public:
  /// The note of DestDb that says how many hosts the cluster has.
  static constexpr const char* kHostsNote = "cluster hosts";

  struct Options {
    redis::ClientOptions client;
    std::string prefix;    // destdb_redis_prefix
    std::string instance;  // this process among all of the cluster; never used again
    milliseconds lease{15'000};
    map::MatchList unshared;  // destdb_unshared_networks
  };
  SharedDestinations(async::Loop& loop, Options options, destdb::DestDb& own);
  ~SharedDestinations() override;
  void start(Manager& manager);

  std::optional<destdb::Facts> find(std::string_view key) override { return own_.find(key); }
  void put(std::string_view key, const destdb::Facts& facts) override;
  const destdb::Suspensions& suspensions() const override { return own_.suspensions(); }
  // What receivers bear is each host's own knowledge.
  std::optional<shaping::Learned> find_learned(std::string_view key) override { return own_.find_learned(key); }
  void put_learned(std::string_view key, const shaping::Learned& learned) override { own_.put_learned(key, learned); }
  void forget_learned(std::string_view key) override { own_.forget_learned(key); }
  void doubted(std::string_view key, std::string_view address, const destdb::Facts& facts) override;
  shaping::SharedRates* shared_rates() override { return &rates_.rates(); }
  void shared_rates_asked() override { wake(); }

  /// Asks for a share of the limit for a connection to this address; OrderedConnections::share_answer() tells. False:
  /// the destination is not shared, and the connection may be opened.
  bool ask_share(ConnectionNumber connection, const std::string& key, std::uint32_t limit, const std::string& address);
  /// A connection is closed, or wanted no more.
  void gone(ConnectionNumber connection);
  /// Forgotten by hand.
  void forgotten(const std::string& key);
  async::Task<void> leave(SteadyTime until);

  ipc::destinations::Backend backend() const;
  /// Of an entry for a tool.
  void describe(ipc::destinations::Entry& entry) const;

 private:
  bool shares(std::string_view address) const;
  void went_up(const std::vector<redis::Reply>& greeted);
  void went_down(const Error& why);
  /// Asks for a run() in the next turn: never inside an event of the scheduler.
  void wake();
  void run();
  void send(const destdb::ClusterSharing::Request& request);
  void send(const destdb::ClusterSharing::AskLease& ask);
  void send(const destdb::ClusterSharing::TellFacts& tell);
  void say_that_we_live();
  void heard_hosts(std::uint64_t hosts);
  void carry_out(destdb::ClusterSharing::Effect& effect);
  void carry_out(const shaping::SharedRates::Effect& effect);
  void set_time() { sharing_.set_time(loop_.clock().now(), loop_.clock().wall_now()); }
  std::string name_of(char kind, const std::string& key) const;
  /// The reply, or the server is given up.
  template <class Take>
  void take(Result<redis::Reply> reply, std::string_view what, Take&& taken);

  async::Loop& loop_;
  Options options_;
  destdb::DestDb& own_;
  destdb::ClusterSharing sharing_;
  redis::Client client_;
  ClusterRates rates_;
  Manager* manager_ = nullptr;
  std::string lease_script_, facts_script_, host_script_;
  std::uint64_t hosts_ = 0;
  std::uint32_t noted_hosts_ = 1;  // as the file has it: for a start without the server
  SteadyTime fewer_since_ = kNever;
  WallTime since_{};
  std::string why_down_;
  bool ever_up_ = false, woken_ = false, leaving_ = false;
  SteadyTime alive_again_ = kNever, timer_at_ = kNever;
  async::Loop::TimerHandle timer_;
};

}  // namespace pen::qmgr
