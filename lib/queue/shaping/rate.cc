#include "lib/queue/shaping/rate.h"

#include <algorithm>

namespace pen::shaping {

namespace {
constexpr nanoseconds kKept = std::chrono::milliseconds(50);
}  // namespace

void Bucket::set(Rate rate, SteadyTime now) {
  if (rate == rate_) return;
  const nanoseconds was = interval_;
  interval_ = rate.interval();
  if (was.count() > 0 && due_ > now && interval_.count() > 0) {
    // Never more than one interval: a rate that was slow may hold up nobody for its own time.
    const double part = static_cast<double>((due_ - now).count()) / static_cast<double>(was.count());
    due_ = now + nanoseconds(static_cast<std::int64_t>(std::min(part, 1.0) * static_cast<double>(interval_.count())));
  }
  rate_ = rate;
}

void Bucket::take(SteadyTime now) {
  if (!rate_.limits()) return;
  due_ = std::max(due_, now - kKept) + interval_;
}

}  // namespace pen::shaping
