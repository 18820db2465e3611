#include "lib/queue/shaping/learner.h"

#include <algorithm>
#include <utility>

namespace pen::shaping {

namespace {
constexpr std::uint64_t kThousand = 1000;
constexpr std::uint32_t kLeastStep = 15;  // thousandths: a probe; less drowns in how unevenly mail comes
constexpr std::uint32_t kMostFalls = 3;   // a sixteenth, an eighth, a quarter, then halves
constexpr std::uint32_t kMostDoublings = 16;
constexpr std::uint32_t kBeyond = 4;  // intervals that what was complained of has to stand

constexpr double most_rise() {
  double rise = 1;
  for (int interval = 0; interval < 12; ++interval) rise *= 1 + static_cast<double>(kMostStep) / kThousand;
  return rise;
}
static_assert(most_rise() <= kMostRise);

std::uint64_t part(std::uint64_t rate, std::uint64_t thousandths) {
  return std::max<std::uint64_t>(rate / kThousand * thousandths + rate % kThousand * thousandths / kThousand, 1);
}

/// What is left between the rate that stands and the one that was complained of is not worth a complaint.
bool near(std::uint64_t stands, std::uint64_t refused) {
  return refused > stands && refused - stands <= part(stands, kNear);
}

/// Until the next rise.
seconds wait(const Learned& l, const Pace& pace) {
  if (near(l.rate, l.refused)) return pace.increase * l.patience;
  // What a receiver lets through at once hides for a while that it bears no more.
  if (l.refused > 0 && l.rate >= l.refused) return pace.increase * std::min(l.patience, kBeyond);
  return pace.increase;
}

std::uint32_t most_patience(const Learned& l, const Pace& pace) {
  const auto rest = std::chrono::duration_cast<seconds>(l.held_until - l.complained).count();
  const auto intervals = rest * kRestsBetween / std::max<std::int64_t>(pace.increase.count(), 1);
  return static_cast<std::uint32_t>(std::max<std::int64_t>(intervals, kMostPatience));
}

seconds rest_of(const Learned& l, const Pace& pace, std::optional<seconds> pause) {
  const seconds usual = pause.value_or(pace.pause);
  return std::max(usual, std::min(usual * (1U << std::min(l.in_vain, kMostDoublings)), kLongestRest));
}

/// Of a rate that was complained of.
void fall(Learned& l) {
  const bool after_rise = l.stood > 0 && l.rate > l.stood;
  const bool settled = l.patience > 1 || l.falls > 0;
  l.refused = l.rate;
  if (after_rise) {
    l.rate = l.stood;
    l.step = kLeastStep;
    if (near(l.rate, l.refused)) l.patience *= 2;
    return;
  }
  if (settled && l.falls < kMostFalls) {  // a receiver that counts otherwise now and then, or accepts less by now
    l.rate -= l.rate >> (4 - l.falls);
    ++l.falls;
  } else {
    l.rate /= 2;
    l.patience = 1;
    l.step = 0;
  }
  l.stood = 0;
}
}  // namespace

Rate limit(const Learned& l, const Pace& pace) {
  const std::uint64_t least = std::min(l.rate, pace.minimum.thousandths);
  const std::uint64_t rate = std::max(l.rate >> std::min(l.in_vain, kMostDoublings), least);
  if (l.ordered == 0) return {rate};
  return {rate == 0 ? l.ordered : std::min(rate, l.ordered)};
}

void order(Learned& l, const Rates& rates) {
  l.ordered = rates.rate.thousandths;
  l.ordered_rates = rates.quotas.empty() ? std::string() : to_string(rates);
}

Rates ordered(const Learned& l) {
  if (l.ordered_rates.empty()) return Rate{l.ordered};
  return parse_rates(l.ordered_rates).value_or(Rate{l.ordered});
}

bool taken(Learned& l) { return std::exchange(l.in_vain, 0U) > 0; }

Rate at_most_after(const Learned& l, const Pace& pace, seconds time) {
  const std::uint64_t most = l.refused > 0 ? std::max(l.refused, l.rate) : Rate::kMost;
  std::uint64_t rate = l.rate;
  for (seconds t = pace.increase; rate > 0 && t <= time && rate < most; t += std::max(pace.increase, seconds(1)))
    rate += part(rate, kMostStep);
  return {std::min(rate, most)};
}

void hold(Learned& l, const Pace& pace, WallTime now, std::optional<seconds> pause) {
  l.complained = now;
  l.used = now;
  l.held_until = std::max(l.held_until, now + pause.value_or(pace.pause));
  l.next_rise = std::max(l.next_rise, l.held_until + wait(l, pace));
}

void complain(Learned& l, const Pace& pace, WallTime now, Took took, std::optional<seconds> pause) {
  ++l.complaints;
  if (held(l, now)) {  // of what was under way
    if (pause) l.held_until = std::max(l.held_until, now + *pause);
    l.next_rise = std::max(l.next_rise, l.held_until + wait(l, pace));
    return;
  }
  l.in_vain = took.anything ? 0 : std::min(l.in_vain + 1, kMostDoublings);
  if (l.rate == 0) {
    l.rate = Rate::per_minute(took.last_minute).thousandths / 2;
    l.stood = l.refused = 0;
    l.patience = 1;
    l.step = l.falls = 0;
  } else if (took.anything) {
    fall(l);
  }
  l.rate = std::clamp(l.rate, pace.minimum.thousandths, std::max(Rate::kMost, pace.minimum.thousandths));
  const seconds rest = rest_of(l, pace, pause);
  l.complained = now;
  l.held_until = now + rest;
  l.patience = std::min(l.patience, most_patience(l, pace));
  l.next_rise = {};
  hold(l, pace, now, rest);
}

bool rise(Learned& l, const Pace& pace, WallTime now, bool used) {
  if (l.rate == 0 || now < l.next_rise) return false;
  if (!used || l.in_vain > 0) {
    l.next_rise = now + pace.increase;
    return false;
  }
  l.stood = std::max(l.stood, l.rate);
  l.falls = 0;
  if (l.step == 0) l.step = kMostStep;
  if (l.refused > 0 && l.rate >= l.refused) l.refused = 0;  // it bears more by now
  std::uint64_t by = part(l.rate, l.step);
  if (l.refused == 0) {
    if (l.step == kMostStep) l.patience = 1;  // much more than it did
    l.step = std::min(l.step * 2, kMostStep);
  } else {
    by = std::min(part(l.rate, kMostStep), std::max((l.refused - l.rate) / 2, part(l.rate, kLeastStep)));
  }
  l.rate = std::min(l.rate + by, Rate::kMost);
  l.next_rise = now + wait(l, pace);
  l.used = now;
  return true;
}

bool outdated(const Learned& l, const Pace& pace, WallTime now) {
  return l.ordered == 0 && now >= l.held_until && now >= l.complained + pace.forget;
}

}  // namespace pen::shaping
