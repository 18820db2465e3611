#include "qmgr/tenant_weights.h"

#include <charconv>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::qmgr {

namespace {
constexpr seconds kGood{60};
}  // namespace

TenantWeights::TenantWeights(async::Loop& loop, map::MapList maps)
    : loop_(loop), maps_(std::move(maps)), tables_(loop), gate_(loop) {}

Result<std::shared_ptr<TenantWeights>> TenantWeights::open(async::Loop& loop, std::string_view specs,
                                                           const map::OpenOptions& options) {
  auto maps = map::MapList::open(specs, options.of("tenant_weight_maps"));
  if (!maps) return fail(std::move(maps).error().within("tenant_weight_maps"));
  if (maps->empty()) return nullptr;
  for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  return std::make_shared<TenantWeights>(loop, *std::move(maps));
}

std::uint32_t TenantWeights::of(std::string_view tenant) {
  if (tenant.empty()) return kUsual;
  std::string name(tenant);
  const SteadyTime now = loop_.now();
  if (weights_.size() >= kMost && !weights_.contains(name) && !make_room(now)) return kUsual;
  const auto [known, fresh] = weights_.try_emplace(name);
  Weight& weight = known->second;
  if (weight.under_way || (!fresh && now < weight.asked + kGood)) return weight.value;
  weight.asked = now;
  if (!maps_.blocking()) {
    answered(name, maps_.lookup(name), false);
    return weight.value;
  }
  weight.under_way = true;
  gate_.spawn("weight of " + printable(name), ask(this, std::move(name)));
  return weight.value;
}

bool TenantWeights::make_room(SteadyTime now) {
  std::erase_if(weights_, [&](const auto& one) { return !one.second.under_way && now >= one.second.asked + kGood; });
  if (weights_.size() >= kMost) std::erase_if(weights_, [](const auto& one) { return !one.second.under_way; });
  return weights_.size() < kMost;
}

async::Task<void> TenantWeights::ask(TenantWeights* self, std::string tenant) {
  const map::Value value = co_await self->tables_.ask([self, tenant] { return self->maps_.lookup(tenant); });
  self->weights_[tenant].under_way = false;
  self->answered(tenant, value, true);
}

void TenantWeights::answered(const std::string& tenant, const map::Value& value, bool tell) {
  if (!value) return warn(value.error().message());
  std::uint32_t weight = kUsual;
  if (*value) {
    const std::string_view text = trim(**value);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    if (error != std::errc() || end != text.data() + text.size() || weight < 1 || weight > kHeaviest)
      return warn(tenant + ": " + printable(text, 40) + " is no weight: 1 to 1000");
  }
  weights_[tenant].value = weight;
  if (tell && known_) known_(tenant, weight);
}

void TenantWeights::warn(const std::string& what) {
  const SteadyTime now = loop_.now();
  if (warned_ != SteadyTime::min() && now - warned_ < seconds(60)) return;
  warned_ = now;
  log::warning("tenant_weight_maps: {}; the weight stays as it was, or {}", what, kUsual);
}

}  // namespace pen::qmgr
