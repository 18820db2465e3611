#include "lib/queue/shaping/rate.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"

namespace pen::shaping {

namespace {
constexpr nanoseconds kKept = std::chrono::milliseconds(50);
}  // namespace

nanoseconds Rate::interval() const {
  if (!limits()) return nanoseconds(0);
  constexpr std::uint64_t kHour = 3'600'000'000'000;  // fits with the factor of 1000
  return nanoseconds(static_cast<std::int64_t>(kHour * 1000 / thousandths));
}

std::uint64_t Rate::in(seconds time) const {
  constexpr std::int64_t kMostSeconds = 4'000'000;  // the product fits
  return thousandths * static_cast<std::uint64_t>(std::clamp<std::int64_t>(time.count(), 0, kMostSeconds)) / 3'600'000;
}

std::optional<Rate> parse_rate(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || slash + 2 != text.size()) return std::nullopt;
  const auto n = parse_unsigned(text.substr(0, slash));
  if (!n || *n == 0 || *n > Rate::kMostPerUnit) return std::nullopt;
  switch (text.back()) {
    case 's':
      return Rate::per_second(*n);
    case 'm':
      return Rate::per_minute(*n);
    case 'h':
      return Rate::per_hour(*n);
    default:
      return std::nullopt;
  }
}

std::string to_string(Rate rate) {
  if (!rate.limits()) return {};
  const auto shown = [](std::uint64_t thousandths, char unit) {
    const std::uint64_t tenths = (thousandths + 50) / 100;
    if (tenths >= 100 || tenths % 10 == 0) return fmt::format("{}/{}", (tenths + 5) / 10, unit);
    return fmt::format("{}.{}/{}", tenths / 10, tenths % 10, unit);
  };
  if (rate >= Rate::per_second(1)) return shown(rate.thousandths / 3600, 's');
  if (rate >= Rate::per_minute(1)) return shown(rate.thousandths / 60, 'm');
  return shown(rate.thousandths, 'h');
}

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
