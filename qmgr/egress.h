#pragma once
/// Egress: from which source each recipient's mail is sent.
///
/// Between the answer of trivial-rewrite and the scheduler: the answer's destinations get a source (their `source` is
/// its name then), so that jobs, connections and what is remembered of hosts are kept apart by it. Which one: the pool
/// by Setup::pool_for(); of it the first in the message's own order (lib/send/egress/choose.h) that nothing keeps from
/// sending to the group. A message that was given a source keeps it for the group while that can be used.
///
/// Group:   what warm-up and blocks go by: the provider, or the domain of the next hop.
/// Use:     const auto a = egress.assign(envelope, ordinal, answer, now);
///          if (a.waits) … the recipient waits, for *a.waits; else if (a.later) … the ledger's changes are written, and
///          then it is asked again
///          egress.accepted(…), failed(…) by what became of a connection; block(…) by what replies say.
///          by_hand: the suspensions of destdb ("source:NAME").
/// State:   the ledger (lib/send/egress/ledger.h); what was given to messages lately, kRemembered at most.
/// No I/O but the tables of egress_pool_maps; time is a parameter.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lib/mail/envelope.h"
#include "lib/queue/destdb/facts.h"
#include "lib/send/egress/ledger.h"
#include "lib/send/egress/setup.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/ipc/route.h"

namespace pen::qmgr {

class Egress {
 public:
  static constexpr std::size_t kRemembered = 200'000;

  struct Options {
    std::shared_ptr<const egress::Setup> setup;
    /// Whether a transport sends from sources at all; empty: each does.
    std::function<bool(std::string_view transport)> sends;
    /// The provider that a route leads to; empty: it leads to none. May be empty.
    std::function<std::string(const ipc::route::Resolved& answer)> provider_of;
  };
  explicit Egress(Options options);

  struct Assigned {
    std::optional<mail::DeliveryStatus> waits;  // why the recipient must wait
    bool later = false;                         // the count of its source has to be written first
  };
  /// Gives the answer a source, if it is to have one.
  Assigned assign(const mail::Envelope& envelope, std::uint32_t ordinal, ipc::route::Resolved& answer, WallTime now);
  /// The same for a caller that only wants to know.
  std::optional<mail::DeliveryStatus> show(std::string_view tenant, std::string_view sender,
                                           ipc::route::Resolved& answer, WallTime now);

  static std::string group_of(std::string_view provider, std::string_view nexthop);
  /// A receiver took it for so many recipients.
  void accepted(std::string_view source, std::string_view group, std::size_t recipients, WallTime now);
  /// A connection from it could not be made, and that was not the host's fault.
  void failed(std::string_view source, std::string_view why, WallTime now);
  void works(std::string_view source);
  /// The source sends nothing to the group until then. Scheduler::reroute_source() takes away what waits. False: there
  /// is no such source.
  bool block(std::string_view source, std::string_view group, WallTime now, WallTime until, std::string_view why);
  /// Blocks, rests and counts of it.
  bool forget(std::string_view source);

  /// What the delivery program gets: filled in where the destination names a source.
  void fill(ipc::delivery::OpenConnection& open) const;

  void set_by_hand(const destdb::Suspensions* suspensions) { by_hand_ = suspensions; }
  const egress::File& file() const { return setup_->file; }
  egress::Ledger& ledger() { return ledger_; }
  /// For tools.
  ipc::destinations::SourceSeen seen(std::uint32_t source, WallTime now) const;
  std::vector<ipc::destinations::SourceGroup> groups(std::uint32_t source, WallTime now) const;

 private:
  /// What messages were given lately: in two halves, of which the older one goes when the newer is full.
  struct Halves {
    std::optional<std::uint32_t> find(std::uint64_t key) const {
      for (const auto* half : {&fresh, &older})
        if (const auto at = half->find(key); at != half->end()) return at->second;
      return std::nullopt;
    }
    void put(std::uint64_t key, std::uint32_t value) {
      if (fresh.size() >= kRemembered / 2) older = std::exchange(fresh, {});
      fresh[key] = value;
    }
    std::unordered_map<std::uint64_t, std::uint32_t> fresh, older;
  };
  std::string group_of(const ipc::route::Resolved& answer) const;
  std::optional<std::uint32_t> index_of(std::string_view name) const;
  std::string suspended_by_hand(std::uint32_t source) const;
  /// nullptr: from no source.
  Result<const egress::Pool*> pool_of(std::string_view tenant, std::string_view sender,
                                      const ipc::route::Resolved& answer) const;
  bool reaches_any(std::uint32_t source, const ipc::route::Resolved& answer) const;
  void put(std::uint32_t source, ipc::route::Resolved& answer) const;
  /// Why none of the pool can be used.
  mail::DeliveryStatus none_left(const egress::Pool& pool, std::string_view group, const ipc::route::Resolved& answer,
                                 WallTime now) const;

  const std::shared_ptr<const egress::Setup> setup_;
  const Options options_;
  egress::Ledger ledger_;
  const destdb::Suspensions* by_hand_ = nullptr;
  std::unordered_map<std::string, std::uint32_t> indexes_;
  mutable std::unordered_map<std::string, bool> sends_;  // by transport
  Halves given_;                                         // by message and group: the source
  Halves counted_;                                       // by message and recipient: for which source
};

}  // namespace pen::qmgr
