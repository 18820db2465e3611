#pragma once
/// Figures of the last hour, day and week, for plots.
///
/// Use:     History history;  history.restore(Range::hour, encoded);  history.add(reading, wall_now);
///          history.points(Range::hour)                                   // oldest first
/// A point: what happened since the one before, and states as they were. A point of a longer range sums and averages
///          those of its time.
/// Bounds:  kRanges has the number of points of each range; the memory is that, whatever happens.
/// Time:    a parameter. After a gap (the host was off) the points say so by their times; a clock that was set back
///          begins the range anew.
/// Thread:  one. Pure.
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "lib/base/codec.h"
#include "lib/base/time.h"

namespace pen::api {

enum class Range : std::uint8_t { hour, day, week };
struct RangeInfo {
  std::string_view name;
  seconds step;
  std::size_t points;
};
inline constexpr std::array<RangeInfo, 3> kRanges = {
    {{"hour", seconds(10), 360}, {"day", seconds(300), 288}, {"week", seconds(1800), 336}}};

/// Counters that only grow, and states, at one moment.
struct Reading {
  std::uint64_t accepted = 0, delivered = 0, deferred = 0, bounced = 0, rejected = 0;
  std::uint64_t syncs = 0, sync_microseconds = 0;
  std::uint64_t active = 0, waiting = 0, held = 0, sessions = 0, connections = 0;
};

struct Point {
  WallTime end{};
  std::uint32_t seconds = 0;  // how long it is
  std::uint64_t accepted = 0, delivered = 0, deferred = 0, bounced = 0, rejected = 0;
  std::uint64_t syncs = 0, sync_microseconds = 0;
  std::uint64_t active = 0, waiting = 0, held = 0, sessions = 0, connections = 0;
  PEN_FIELDS(end, seconds, accepted, delivered, deferred, bounced, rejected, syncs, sync_microseconds, active, waiting,
             held, sessions, connections)
};

class History {
 public:
  /// Returns bits: each range with its bit set has a new point.
  unsigned add(const Reading& reading, WallTime now);
  const std::deque<Point>& points(Range range) const { return series_[static_cast<std::size_t>(range)].points; }

  /// The points of the range as bytes, for restore().
  std::string stored(Range range) const;
  /// False: those are no points that stored() has made; the range stays as it is.
  [[nodiscard]] bool restore(Range range, std::string_view bytes);

 private:
  struct Series {
    std::deque<Point> points;
    Point open;  // under way
    std::uint64_t readings = 0;
    microseconds length{0};  // of the open point
  };
  std::array<Series, kRanges.size()> series_;
  Reading last_;
  WallTime last_at_{};  // none: there was no reading
};

}  // namespace pen::api
