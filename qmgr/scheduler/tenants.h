#pragma once
/// The tenants with messages here, by name.
///
/// Use:     enter() when a message is admitted, leave() when it is forgotten: its tenant goes with the last one.
///          Options::tenant_weight is asked with each message; weigh() when a weight has become known.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/tenant.h"

namespace pen::qmgr::scheduler {

class Tenants {
 public:
  explicit Tenants(const Options& options) : options_(options) {}
  struct Entered {
    Tenant* tenant = nullptr;  // nullptr: there are no tenants (Options::tenants)
    bool weighs_anew = false;  // it was here before with another weight
  };
  Entered enter(std::string_view name);
  void leave(Tenant* tenant);
  /// nullptr: it is not here.
  Tenant* weigh(std::string_view name, std::uint32_t weight);
  std::size_t size() const { return by_name_.size(); }

 private:
  const Options& options_;
  std::unordered_map<std::string_view, std::unique_ptr<Tenant>> by_name_;  // the tenants own the names
  std::uint32_t next_ = 1;
};

}  // namespace pen::qmgr::scheduler
