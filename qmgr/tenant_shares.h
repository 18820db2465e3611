#pragma once
/// What each tenant has of the active set (tenant_active_share), and how much of its mail waits on the disk for a
/// place in it. The same for mail that is less urgent than other mail (active_set.h), by the names of its classes.
///
/// Use:     if (full(tenant)) the message is parked: park_for() says which retry log, parked() where it is; else
///          enter() … leave(). take() names one of a tenant that has room again: it is begun where it is, whatever the
///          time of its log.
/// How:     a message beyond the share goes to a retry log, and mail behind it in the journal is not held up. That
///          log's time is about when its turn should come, by how fast the tenant's mail leaves the active set; its
///          place is remembered as well, so that its turn comes when there is room. Places that are not remembered (too
///          many, or a restart) cost no more than that time.
/// Bounds:  kPlaces places in all. A tenant is known while something of it is here, or is remembered.
/// Thread:  the loop's.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/time.h"
#include "lib/queue/queue_log/message.h"

namespace pen::qmgr {

class TenantShares {
 public:
  static constexpr std::size_t kPlaces = 500'000;  // 16 MiB

  /// limit: messages of one tenant in the active set; 0: any number, and nothing is counted. longest: what nobody is
  /// parked for longer than.
  TenantShares(std::size_t limit, seconds longest) : limit_(limit), longest_(longest) {}
  /// For shares of several sizes. own: limits of some, in place of `limit`. total: of all together; 0: any number.
  using Limits = std::map<std::string, std::size_t, std::less<>>;
  TenantShares(std::size_t limit, seconds longest, Limits own, std::size_t total)
      : limit_(limit), longest_(longest), own_(std::move(own)), total_limit_(total) {}

  bool full(std::string_view tenant) const;
  void enter(const std::string& tenant);
  void leave(const std::string& tenant, SteadyTime now);
  /// For how long one more is to be parked.
  seconds park_for(const std::string& tenant, SteadyTime now);
  void parked(const std::string& tenant, queue_log::Place place);

  /// Somebody has room, and something that waits for it.
  bool any_ready() const { return !ready_.empty(); }
  struct Waiting {
    std::string tenant;
    queue_log::Place place;
  };
  std::optional<Waiting> take();
  /// It cannot be begun yet: it comes first again.
  void put_back(Waiting waiting);
  /// How many of the tenant's are remembered.
  std::size_t waiting(const std::string& tenant) const;
  std::size_t places() const { return places_; }
  std::uint64_t parked_so_far() const { return parked_; }

 private:
  struct Share {
    std::size_t active = 0;
    std::deque<queue_log::Place> waiting;
    bool ready = false;  // among those to be looked at
    // How fast they leave, in messages per second: of the last seconds, and as it was before.
    double rate = 0;
    std::size_t left = 0;
    SteadyTime since{};
    // How many are parked before the next one, as of `reckoned`.
    double ahead = 0;
    SteadyTime reckoned{};
  };
  std::size_t limit_of(std::string_view tenant) const;
  bool full(std::string_view tenant, const Share& share) const;
  double rate_of(std::string_view tenant, const Share& share, SteadyTime now) const;
  void look(const std::string& tenant, Share& share);
  void forget_if_empty(const std::string& tenant);

  const std::size_t limit_;
  const seconds longest_;
  const Limits own_;
  const std::size_t total_limit_ = 0;
  std::size_t total_ = 0;  // active, of all
  std::unordered_map<std::string, Share> shares_;
  std::deque<std::string> ready_;  // tenants that may have room and something that waits, in turn
  std::size_t places_ = 0;
  std::uint64_t parked_ = 0;
};

}  // namespace pen::qmgr
