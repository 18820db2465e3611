#pragma once
/// Counters and histograms of the mail programs, in memory that penapi reads while they run. docs/metrics.md.
///
/// Use:     metrics::smtpd_connections.add();
///          metrics::smtpd_rejects.add(Stage::rcpt, Code::c554, Reason::relay);
///          metrics::queue_sync.observe(elapsed);
/// Cost:    one relaxed atomic addition: no lock, no text, no system call.
/// Where:   in the page that master gave the program (page.h); before that, and in tools and tests, in memory of the
///          process, so that the code that counts need not know.
/// Thread:  any.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/metrics/labels.h"

namespace pen::metrics {

/// Upper bounds of the buckets of a histogram of times, in microseconds.
inline constexpr auto kAges = std::to_array<std::uint64_t>(
    {5'000, 25'000, 100'000, 500'000, 1'000'000, 5'000'000, 15'000'000, 60'000'000, 300'000'000, 900'000'000,
     3'600'000'000, 14'400'000'000, 43'200'000'000, 86'400'000'000, 172'800'000'000, 432'000'000'000});
inline constexpr auto kSyncs =
    std::to_array<std::uint64_t>({100, 250, 500, 1'000, 2'500, 5'000, 10'000, 25'000, 50'000, 100'000, 250'000, 500'000,
                                  1'000'000, 2'500'000, 5'000'000, 10'000'000, 30'000'000});
/// Of a histogram of plain numbers: bytes, and how many there are.
inline constexpr auto kBytes =
    std::to_array<std::uint64_t>({1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000});
inline constexpr auto kNumbers = std::to_array<std::uint64_t>({1, 2, 5, 10, 20, 50, 100, 1'000, 10'000});

enum class Id : std::uint16_t {
#define PEN_COUNTER(name, help, ...) name,
#define PEN_HISTOGRAM(name, bounds, help, ...) name,
#define PEN_SIZES(name, bounds, help, ...) name,
#include "lib/base/metrics/metrics.def"
#undef PEN_COUNTER
#undef PEN_HISTOGRAM
#undef PEN_SIZES
};

struct LabelInfo {
  std::string_view name;
  std::span<const std::string_view> values;
};
template <class... Ls>
inline constexpr std::array<LabelInfo, sizeof...(Ls)> kLabels = {LabelInfo{Label<Ls>::name, Label<Ls>::values}...};
template <class... Ls>
constexpr std::size_t combinations() {
  return (std::size_t{1} * ... * Label<Ls>::values.size());
}

/// A row of metrics.def.
struct Family {
  std::string_view name, help;
  std::span<const LabelInfo> labels;
  std::span<const std::uint64_t> bounds;  // of a histogram; empty: a counter
  std::size_t series;                     // combinations of label values; the last label's values follow each other
  double unit = 1;                        // what a bound and the sum count, in what is shown: 1e-6, microseconds
  std::size_t first = 0;                  // slot
  /// A histogram has a slot for each bucket, one for what is above all, one for the sum.
  constexpr std::size_t slots_each() const { return bounds.empty() ? 1 : bounds.size() + 2; }
};

namespace detail {
inline constexpr auto kRows = std::to_array<Family>({
#define PEN_COUNTER(name, help, ...) {#name, help, kLabels<__VA_ARGS__>, {}, combinations<__VA_ARGS__>()},
#define PEN_HISTOGRAM(name, bounds, help, ...) \
  {#name, help, kLabels<__VA_ARGS__>, bounds, combinations<__VA_ARGS__>(), 1e-6},
#define PEN_SIZES(name, bounds, help, ...) {#name, help, kLabels<__VA_ARGS__>, bounds, combinations<__VA_ARGS__>()},
#include "lib/base/metrics/metrics.def"
#undef PEN_COUNTER
#undef PEN_HISTOGRAM
#undef PEN_SIZES
});
constexpr auto with_slots() {
  auto rows = kRows;
  std::size_t next = 0;
  for (Family& f : rows) {
    f.first = next;
    next += f.series * f.slots_each();
  }
  return rows;
}
}  // namespace detail

inline constexpr auto kFamilies = detail::with_slots();
inline constexpr std::size_t kSlots = kFamilies.back().first + kFamilies.back().series * kFamilies.back().slots_each();
constexpr const Family& family(Id id) { return kFamilies[static_cast<std::size_t>(id)]; }

using Slot = std::atomic<std::uint64_t>;
static_assert(Slot::is_always_lock_free && sizeof(Slot) == 8);

namespace detail {
extern Slot* slots;  // kSlots of them
inline void add(std::size_t slot, std::uint64_t n) { slots[slot].fetch_add(n, std::memory_order_relaxed); }
/// Observes in the histogram that has this first slot.
void observe(const Family& f, std::size_t first, std::uint64_t value);

template <class... Ls>
constexpr std::size_t index_of(Ls... labels) {
  std::size_t at = 0;
  ((at = at * Label<Ls>::values.size() + static_cast<std::size_t>(labels)), ...);
  return at;
}
}  // namespace detail

template <Id id, class... Ls>
struct Counter {
  void add(Ls... labels, std::uint64_t n = 1) const {
    detail::add(family(id).first + detail::index_of<Ls...>(labels...), n);
  }
};

template <Id id, class... Ls>
struct Histogram {
  /// What is below zero, because a clock was set, counts as nothing.
  void observe(Ls... labels, std::chrono::nanoseconds elapsed) const {
    constexpr const Family& f = family(id);
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count();
    detail::observe(f, f.first + detail::index_of<Ls...>(labels...) * f.slots_each(),
                    us < 0 ? 0 : static_cast<std::uint64_t>(us));
  }
};

template <Id id, class... Ls>
struct Sizes {
  void observe(Ls... labels, std::uint64_t value) const {
    constexpr const Family& f = family(id);
    detail::observe(f, f.first + detail::index_of<Ls...>(labels...) * f.slots_each(), value);
  }
};

#define PEN_COUNTER(name, help, ...) inline constexpr Counter<Id::name __VA_OPT__(, ) __VA_ARGS__> name{};
#define PEN_HISTOGRAM(name, bounds, help, ...) inline constexpr Histogram<Id::name __VA_OPT__(, ) __VA_ARGS__> name{};
#define PEN_SIZES(name, bounds, help, ...) inline constexpr Sizes<Id::name __VA_OPT__(, ) __VA_ARGS__> name{};
#include "lib/base/metrics/metrics.def"
#undef PEN_COUNTER
#undef PEN_HISTOGRAM
#undef PEN_SIZES

/// What the process has counted: for tests, and for a program's status lines.
template <Id id, class... Ls>
std::uint64_t value(const Counter<id, Ls...>&, Ls... labels) {
  return detail::slots[family(id).first + detail::index_of<Ls...>(labels...)].load(std::memory_order_relaxed);
}

}  // namespace pen::metrics
