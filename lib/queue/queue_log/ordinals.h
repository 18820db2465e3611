#pragma once
/// A set of recipient ordinals, kept as sorted disjoint ranges: 100,000 recipients that are all
/// left cost one range.
///
/// An ordinal is a recipient's place in the message's first envelope; it never changes while the message lives.
#include <cstdint>
#include <vector>

#include "lib/base/codec.h"

namespace pen::queue_log {

class OrdinalSet {
 public:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;  // one past the last
    PEN_FIELDS(first, end)
    bool operator==(const Range&) const = default;
  };

  OrdinalSet() = default;
  static OrdinalSet one(std::uint32_t ordinal) { return span(ordinal, ordinal + 1); }
  /// [first, end).
  static OrdinalSet span(std::uint32_t first, std::uint32_t end);

  void add(const OrdinalSet& other);
  void add(std::uint32_t ordinal) { add(one(ordinal)); }
  void remove(const OrdinalSet& other);
  void remove(std::uint32_t ordinal) { remove(one(ordinal)); }
  bool contains(std::uint32_t ordinal) const;
  bool empty() const { return ranges_.empty(); }
  std::uint64_t count() const;
  const std::vector<Range>& ranges() const { return ranges_; }
  /// Sorted, disjoint, not empty ranges: what a reader demands of bytes from disk.
  bool well_formed() const;
  bool operator==(const OrdinalSet&) const = default;

  PEN_FIELDS(ranges_)

 private:
  std::vector<Range> ranges_;
};

}  // namespace pen::queue_log
