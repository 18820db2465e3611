#pragma once
/// The last events, in memory, for readers of public/event-stream.
///
/// Use:     recent.add({id, type, queue_id, line});   for (auto n = recent.first(); n < recent.end(); ++n) recent.at(n)
/// Rules:   events are numbered without gaps, whatever their ids are. A reader whose next one is below first() has
///          been too slow.
/// Bounds:  `most` events and kMaxBytes; the oldest go first. Live readers have kLeast of them before they are too
///          slow.
/// Thread:  the loop's.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>

#include "lib/suite/events/event.h"

namespace pen::penevents {

class Recent {
 public:
  static constexpr std::size_t kLeast = 2000, kMaxBytes = 256 * 1024 * 1024;
  struct Entry {
    std::uint64_t id = 0;
    events::Type type{};
    std::string queue_id, line;
  };

  explicit Recent(std::size_t most) : most_(most) {}
  void add(Entry entry) {
    bytes_ += entry.line.size();
    entries_.push_back(std::move(entry));
    while (entries_.size() > std::max(most_, kLeast) || (bytes_ > kMaxBytes && entries_.size() > 1)) {
      bytes_ -= entries_.front().line.size();
      entries_.pop_front();
      ++first_;
    }
  }
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + entries_.size(); }
  /// Where somebody begins to read.
  std::uint64_t start() const { return end() - std::min<std::uint64_t>(entries_.size(), most_); }
  const Entry& at(std::uint64_t number) const { return entries_[static_cast<std::size_t>(number - first_)]; }

 private:
  std::size_t most_;
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace pen::penevents
