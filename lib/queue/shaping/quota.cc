#include "lib/queue/shaping/quota.h"

#include <utility>

namespace pen::shaping {

void QuotaWindow::set(const Quota& quota) {
  if (quota == quota_) return;
  quota_ = quota;
  // What went under a larger number is not forgotten: that may come back before the time is over.
  remembered_ = std::max(quota.most, std::exchange(used_, 0));
  // By the new size of a part, of which there may not be too many.
  for (const Part& p : std::exchange(parts_, {}))
    if (quota.most != 0) put(p.count, p.last);
}

SteadyTime QuotaWindow::opens(std::uint64_t before) const {
  if (quota_.most == 0) return SteadyTime::min();
  if (before >= quota_.most) return kNever;
  std::uint64_t all = used_ + before + 1;
  SteadyTime at = SteadyTime::min();
  for (const Part& p : parts_) {
    if (all <= quota_.most) break;
    all -= p.count;
    at = p.last + quota_.within;
  }
  return at;
}

SteadyTime QuotaWindow::reckoned(std::uint64_t before, SteadyTime now) const {
  if (quota_.most == 0) return now;
  return std::max(now, opens(before % quota_.most)) + quota_.within * static_cast<std::int64_t>(before / quota_.most);
}

std::uint64_t QuotaWindow::until(SteadyTime then, SteadyTime now) const {
  if (quota_.most == 0) return UINT64_MAX;
  const auto times = static_cast<std::uint64_t>(std::max(then - now, SteadyTime::duration(0)) / quota_.within);
  const SteadyTime rest = then - quota_.within * static_cast<std::int64_t>(times);
  return times * quota_.most + quota_.most - std::min(quota_.most, used(rest));
}

void QuotaWindow::add(std::uint64_t count, SteadyTime at) {
  if (quota_.most == 0 || count == 0) return;
  while (!parts_.empty() && parts_.front().last + quota_.within <= at) {
    used_ -= parts_.front().count;
    parts_.pop_front();
  }
  if (used_ <= quota_.most) remembered_ = quota_.most;
  put(std::min(count, remembered_), at);
  // What is older than the last N keeps nobody: it is over before one of these is.
  while (used_ - parts_.front().count >= remembered_) {
    used_ -= parts_.front().count;
    parts_.pop_front();
  }
}

void QuotaWindow::put(std::uint64_t count, SteadyTime at) {
  used_ += count;
  while (count > 0) {
    if (parts_.empty() || parts_.back().count >= part_size()) parts_.push_back({at, 0});
    Part& part = parts_.back();
    const std::uint64_t more = std::min(count, part_size() - part.count);
    part.last = std::max(part.last, at);
    part.count += more;
    count -= more;
  }
}

std::uint64_t QuotaWindow::used(SteadyTime now) const {
  std::uint64_t sum = used_;
  for (const Part& p : parts_) {
    if (p.last + quota_.within > now) break;
    sum -= p.count;
  }
  return sum;
}

}  // namespace pen::shaping
