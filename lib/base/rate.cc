#include "lib/base/rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen {

namespace {
struct Unit {
  char letter;
  seconds time;
  const char* name;
};
constexpr std::array<Unit, 4> kUnits{{{'s', seconds(1), "second"},
                                      {'m', seconds(60), "minute"},
                                      {'h', seconds(3600), "hour"},
                                      {'d', seconds(86400), "day"}}};

struct Count {
  std::uint64_t n = 0;
  const Unit* unit = nullptr;
  Rate rate() const { return {n * 3'600'000 / static_cast<std::uint64_t>(unit->time.count())}; }
};

std::optional<Count> parse_count(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || slash + 2 != text.size()) return std::nullopt;
  const auto n = parse_unsigned(text.substr(0, slash));
  const auto* const unit = std::ranges::find(kUnits, text.back(), &Unit::letter);
  if (!n || *n == 0 || *n > Rate::kMostPerUnit || unit == kUnits.end()) return std::nullopt;
  return Count{*n, unit};
}
}  // namespace

std::chrono::nanoseconds Rate::interval() const {
  if (!limits()) return std::chrono::nanoseconds(0);
  constexpr std::uint64_t kHour = 3'600'000'000'000;  // fits with the factor of 1000
  return std::chrono::nanoseconds(static_cast<std::int64_t>(kHour * 1000 / thousandths));
}

std::uint64_t Rate::in(seconds time) const {
  constexpr std::int64_t kMostSeconds = 4'000'000;  // the product fits
  return thousandths * static_cast<std::uint64_t>(std::clamp<std::int64_t>(time.count(), 0, kMostSeconds)) / 3'600'000;
}

std::optional<Rate> parse_rate(std::string_view text) {
  const auto count = parse_count(text);
  return count ? std::optional(count->rate()) : std::nullopt;
}

std::expected<Rates, std::string> parse_rates(std::string_view text) {
  std::vector<Count> counts;
  for (const auto word : split(text)) {
    const auto count = parse_count(word);
    if (!count) return std::unexpected("is not a rate: N/s, N/m, N/h or N/d, or several with commas between them");
    if (std::ranges::any_of(counts, [&](const Count& other) { return other.unit == count->unit; }))
      return std::unexpected(fmt::format("has two rates by the {}", count->unit->name));
    counts.push_back(*count);
  }
  if (counts.empty()) return std::unexpected("names no rate");
  std::ranges::sort(counts, {}, &Count::unit);  // they stand with the quickest first
  Rates out = counts.front().rate();
  for (std::size_t i = 1; i < counts.size(); ++i) {
    const Count &quicker = counts[i - 1], &slower = counts[i];
    const auto times = static_cast<std::uint64_t>(slower.unit->time / quicker.unit->time);
    if (slower.n >= quicker.n * times)
      return std::unexpected(fmt::format("has {}/{}, which holds nothing back beside {}/{}", slower.n,
                                         slower.unit->letter, quicker.n, quicker.unit->letter));
    out.quotas.push_back({slower.n, slower.unit->time});
  }
  return out;
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
  if (rate >= Rate::per_hour(1)) return shown(rate.thousandths, 'h');
  return shown(rate.thousandths * 24, 'd');
}

std::string to_string(const Quota& quota) {
  const auto* const unit = std::ranges::find(kUnits, quota.within, &Unit::time);
  if (unit != kUnits.end()) return fmt::format("{}/{}", quota.most, unit->letter);
  return fmt::format("{} in {} s", quota.most, quota.within.count());
}

std::string to_string(const Rates& rates) {
  if (rates.quotas.empty()) return to_string(rates.rate);
  std::string out;
  for (const Unit& unit : kUnits) {
    const std::uint64_t thousandths = rates.rate.thousandths * static_cast<std::uint64_t>(unit.time.count());
    if (thousandths % 3'600'000 != 0) continue;
    out = fmt::format("{}/{}", thousandths / 3'600'000, unit.letter);
    break;
  }
  if (out.empty()) out = to_string(rates.rate);
  for (const Quota& q : rates.quotas) out += "," + to_string(q);
  return out;
}

}  // namespace pen
