#pragma once
/// Routes that hold for every plain address of a domain, so that trivial-rewrite is asked once for it and not once for
/// each recipient. It says for which answers that is so (ipc::route::Resolved::for_domain): no table was asked, and
/// nothing but the domain was looked at. Not kept: answers that completed or rewrote the address.
///
/// Use:     if (auto* known = cache.find(recipient, now)) scheduler.routed(…, *known); else ask, and
///          cache.add(recipient, answer, now);
/// Bounds:  kMost domains (then it begins anew); kLongest seconds and never beyond the answer's own time, so that a
///          name that changes, and a choice among very many hosts, does not stay. clear() when trivial-rewrite went
///          away: the next one may have another configuration.
/// No I/O; the time is a parameter.
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/suite/ipc/route.h"

namespace pen::qmgr {

class RouteCache {
 public:
  static constexpr std::size_t kMost = 4096;
  static constexpr seconds kLongest{60};

  /// The route of this recipient, with its address and the time that is left filled in; nullptr: ask. Valid until the
  /// next call.
  const ipc::route::Resolved* find(std::string_view recipient, SteadyTime now);
  /// Keeps the answer if it holds for the domain.
  void add(std::string_view recipient, const ipc::route::Resolved& answer, SteadyTime now);
  void clear() { routes_.clear(); }
  std::size_t size() const { return routes_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  struct Route {
    ipc::route::Resolved answer;
    SteadyTime until;
  };
  /// The domain in lower case; empty: not a plain address. Valid until the next call.
  std::string_view domain_of(std::string_view recipient);

  std::unordered_map<std::string, Route, Hash, std::equal_to<>> routes_;
  std::string folded_;
};

}  // namespace pen::qmgr
