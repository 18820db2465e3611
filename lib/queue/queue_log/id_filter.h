#pragma once
/// Which queue ids a segment may hold: a Bloom filter that is small on disk and bounded in memory.
///
/// Format:  docs/queue-format.md. A power of two of bytes; a queue id sets kProbes bits, found by double hashing of
///          XXH3-64 without a seed, counted from the low end. A filter of half the size is the two halves combined, so
///          that the size can be chosen when the number of ids is known: at least kBitsPerId each, unless the largest
///          size is reached (then it says "perhaps" more often, and footers are read that need not be).
/// Use:     IdFilter filter(max_filter(segment_size)); filter.add(IdFilter::hash(id)); … filter.packed()
///          if (!IdFilter::may_contain(packed, hash)) …       // surely not in this segment
/// No I/O.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pen::queue_log {

class IdFilter {
 public:
  static constexpr std::size_t kMinBytes = 32;
  static constexpr unsigned kProbes = 5;
  static constexpr std::size_t kBitsPerId = 12;  // with five probes: wrong for one id in 250

  /// Holds nothing and takes nothing in: may_contain() is always true.
  IdFilter() = default;
  /// bytes: a power of two, at least kMinBytes; the memory it takes.
  explicit IdFilter(std::size_t bytes) : bits_(bytes, '\0') {}

  static std::uint64_t hash(std::string_view queue_id);
  void add(std::uint64_t hash);
  bool may_contain(std::uint64_t hash) const;
  /// As it is stored: folded as far as kBitsPerId allows.
  std::string packed() const;
  /// Of stored bytes. Anything that packed() does not make says "perhaps": a damaged filter costs time, not messages.
  static bool may_contain(std::string_view packed, std::uint64_t hash);

 private:
  void set(std::uint64_t hash);

  // The last ones' bits are set when their lines have come into the cache: in a large filter each lies in another.
  static constexpr std::size_t kWaiting = 8;
  std::string bits_;
  std::size_t count_ = 0;
  std::array<std::uint64_t, kWaiting> waiting_{};  // the last min(count_, kWaiting), a ring
};

}  // namespace pen::queue_log
