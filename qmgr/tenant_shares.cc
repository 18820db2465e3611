#include "qmgr/tenant_shares.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::qmgr {

namespace {
constexpr seconds kMeasured{10};  // a rate is that of so long at least
double seconds_of(SteadyTime::duration d) { return std::chrono::duration<double>(d).count(); }
}  // namespace

bool TenantShares::full(std::string_view tenant) const {
  if (limit_ == 0) return false;
  const auto known = shares_.find(std::string(tenant));
  return known == shares_.end() ? total_limit_ != 0 && total_ >= total_limit_ : full(tenant, known->second);
}

std::size_t TenantShares::limit_of(std::string_view tenant) const {
  const auto own = own_.find(tenant);
  return own == own_.end() ? limit_ : own->second;
}

bool TenantShares::full(std::string_view tenant, const Share& share) const {
  return share.active >= limit_of(tenant) || (total_limit_ != 0 && total_ >= total_limit_);
}

std::size_t TenantShares::waiting(const std::string& tenant) const {
  const auto known = shares_.find(tenant);
  return known == shares_.end() ? 0 : known->second.waiting.size();
}

void TenantShares::enter(const std::string& tenant) {
  if (limit_ == 0) return;
  ++shares_[tenant].active;
  ++total_;
}

void TenantShares::leave(const std::string& tenant, SteadyTime now) {
  if (limit_ == 0) return;
  Share& share = shares_.at(tenant);
  PEN_CHECK(share.active > 0, "more messages of a tenant leave than came");
  --share.active;
  --total_;
  if (share.left++ == 0 && share.since == SteadyTime{}) share.since = now;
  if (const auto passed = now - share.since; passed >= kMeasured) {
    const double lately = static_cast<double>(share.left) / seconds_of(passed);
    share.rate = share.rate == 0 ? lately : (share.rate + lately) / 2;
    share.left = 0;
    share.since = now;
  }
  look(tenant, share);
  forget_if_empty(tenant);
  // What one leaves of what all may have together is anybody's.
  if (total_limit_ != 0)
    for (auto& [name, other] : shares_) look(name, other);
}

double TenantShares::rate_of(std::string_view tenant, const Share& share, SteadyTime now) const {
  double rate = share.rate;
  // Nothing may have left for long: what it was before says nothing then.
  if (const auto passed = now - share.since; rate > 0 && passed >= kMeasured)
    rate = std::min(rate, static_cast<double>(share.left + 1) / seconds_of(passed));
  // A tenant that was never measured, or stands still, gets through its share within the longest time.
  return std::max(rate, static_cast<double>(limit_of(tenant)) / static_cast<double>(std::max(longest_.count(), 1L)));
}

seconds TenantShares::park_for(const std::string& tenant, SteadyTime now) {
  Share& share = shares_[tenant];
  const double rate = rate_of(tenant, share, now);
  if (share.reckoned != SteadyTime{})
    share.ahead = std::max(0.0, share.ahead - rate * seconds_of(now - share.reckoned));
  share.reckoned = now;
  const double wait = share.ahead / rate;
  share.ahead += 1;
  ++parked_;
  return std::min(longest_, seconds(static_cast<std::int64_t>(std::min(wait, 1e9))));
}

void TenantShares::parked(const std::string& tenant, queue_log::Place place) {
  if (places_ >= kPlaces) return;
  Share& share = shares_[tenant];
  share.waiting.push_back(place);
  ++places_;
  look(tenant, share);
}

void TenantShares::look(const std::string& tenant, Share& share) {
  if (share.ready || share.waiting.empty() || full(tenant, share)) return;
  share.ready = true;
  ready_.push_back(tenant);
}

std::optional<TenantShares::Waiting> TenantShares::take() {
  while (!ready_.empty()) {
    std::string tenant = std::move(ready_.front());
    ready_.pop_front();
    Share& share = shares_.at(tenant);
    share.ready = false;
    if (share.waiting.empty() || full(tenant, share)) continue;
    Waiting next{tenant, share.waiting.front()};
    share.waiting.pop_front();
    --places_;
    look(tenant, share);
    forget_if_empty(tenant);
    return next;
  }
  return std::nullopt;
}

void TenantShares::put_back(Waiting waiting) {
  Share& share = shares_[waiting.tenant];
  share.waiting.push_front(waiting.place);
  ++places_;
  look(waiting.tenant, share);
}

void TenantShares::forget_if_empty(const std::string& tenant) {
  const auto known = shares_.find(tenant);
  if (known == shares_.end()) return;
  const Share& share = known->second;
  if (share.active == 0 && share.waiting.empty() && !share.ready) shares_.erase(known);
}

}  // namespace pen::qmgr
