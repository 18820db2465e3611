#include "penapi/history.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace pen::api {
namespace {

struct Stored {
  std::vector<Point> points;
  PEN_FIELDS(points)
};

/// LMDB checks no content: what a disk has changed would be figures of a queue that never was.
struct Sealed {
  std::uint64_t checksum = 0;
  std::string_view points;
  PEN_FIELDS(checksum, points)
};

std::uint64_t checksum_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

/// A counter that is smaller than before has begun anew.
std::uint64_t since(std::uint64_t before, std::uint64_t now) { return now >= before ? now - before : now; }

constexpr std::array kCounts = {std::pair(&Reading::accepted, &Point::accepted),
                                std::pair(&Reading::delivered, &Point::delivered),
                                std::pair(&Reading::deferred, &Point::deferred),
                                std::pair(&Reading::bounced, &Point::bounced),
                                std::pair(&Reading::rejected, &Point::rejected),
                                std::pair(&Reading::syncs, &Point::syncs),
                                std::pair(&Reading::sync_microseconds, &Point::sync_microseconds)};
constexpr std::array kStates = {std::pair(&Reading::active, &Point::active),
                                std::pair(&Reading::waiting, &Point::waiting), std::pair(&Reading::held, &Point::held),
                                std::pair(&Reading::sessions, &Point::sessions),
                                std::pair(&Reading::connections, &Point::connections)};

}  // namespace

unsigned History::add(const Reading& reading, WallTime now) {
  const microseconds elapsed = std::chrono::duration_cast<microseconds>(now - last_at_);
  const bool first = last_at_ == WallTime{} || elapsed < microseconds(0);
  if (elapsed < microseconds(0))
    for (Series& s : series_) s = {};
  unsigned fresh = 0;
  if (!first) {
    for (std::size_t i = 0; i < series_.size(); ++i) {
      Series& s = series_[i];
      for (const auto& [from, to] : kCounts) s.open.*to += since(last_.*from, reading.*from);
      ++s.readings;
      for (const auto& [from, to] : kStates)  // the mean of all readings so far
        s.open.*to = (s.open.*to * (s.readings - 1) + reading.*from + s.readings / 2) / s.readings;
      s.length += elapsed;
      if (s.length < kRanges[i].step) continue;
      s.open.seconds = static_cast<std::uint32_t>(
          std::min<std::int64_t>(std::chrono::round<seconds>(std::exchange(s.length, {})).count(), UINT32_MAX));
      s.open.end = now;
      s.points.push_back(std::exchange(s.open, {}));
      s.readings = 0;
      if (s.points.size() > kRanges[i].points) s.points.pop_front();
      fresh |= 1U << i;
    }
  }
  last_ = reading;
  last_at_ = now;
  return fresh;
}

std::string History::stored(Range range) const {
  const auto& points = this->points(range);
  const std::string bytes = encode(Stored{{points.begin(), points.end()}});
  return encode(Sealed{checksum_of(bytes), bytes});
}

bool History::restore(Range range, std::string_view bytes) {
  const auto sealed = decode<Sealed>(bytes);
  if (!sealed || sealed->checksum != checksum_of(sealed->points)) return false;
  const auto stored = decode<Stored>(sealed->points);
  if (!stored) return false;
  const std::size_t most = kRanges[static_cast<std::size_t>(range)].points;
  auto& points = series_[static_cast<std::size_t>(range)].points;
  const std::size_t skip = stored->points.size() > most ? stored->points.size() - most : 0;
  points.assign(stored->points.begin() + static_cast<std::ptrdiff_t>(skip), stored->points.end());
  return true;
}

}  // namespace pen::api
