#include "qmgr/scheduler/tenants.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::qmgr::scheduler {

Tenants::Entered Tenants::enter(std::string_view name) {
  if (!options_.tenants) return {};
  const std::uint32_t weight =
      options_.tenant_weight ? std::clamp(options_.tenant_weight(name), kLeastWeight, kMostWeight) : kUsualWeight;
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    Tenant& tenant = *known->second;
    ++tenant.messages;
    // Without the function weights come only from weigh().
    const bool another = options_.tenant_weight && tenant.weight != weight;
    if (another) tenant.weight = weight;
    return {&tenant, another};
  }
  auto made = std::make_unique<Tenant>(std::string(name), next_++);
  made->weight = weight;
  Tenant* const tenant = made.get();
  tenant->messages = 1;
  by_name_.emplace(tenant->name, std::move(made));
  return {tenant, false};
}

void Tenants::leave(Tenant* tenant) {
  if (tenant == nullptr || --tenant->messages > 0) return;
  PEN_CHECK(tenant->routing == 0 && tenant->concurrency == 0, "a tenant without messages holds workers");
  by_name_.erase(by_name_.find(std::string_view(tenant->name)));
}

Tenant* Tenants::weigh(std::string_view name, std::uint32_t weight) {
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return nullptr;
  known->second->weight = std::clamp(weight, kLeastWeight, kMostWeight);
  return known->second.get();
}

}  // namespace pen::qmgr::scheduler
