#pragma once
/// Which messages were accepted lately, and where: what makes append() idempotent by queue id.
///
/// Use:     RecentIds ids(65536, seed); ids.add("4bX…", {ticket, position}); if (const auto* known = ids.find("4bX…")) …
/// Memory:  two flat tables, the newer one at most half full; when it is, the older one is emptied and they change
///          places. So between `least` and 2 × `least` ids are known, 40 bytes of table for each, an id costs no
///          allocation and forgetting costs nothing. A table begins small and grows.
/// Keys:    XXH3-128 of the id with a seed, so that two ids are never taken for one, whoever chose them.
/// No I/O.
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/queue_log/message.h"

namespace pen::queue_log {

class RecentIds {
 public:
  struct Accepted {
    std::uint64_t ticket = 0;
    Position position;
  };

  /// `least`: so many ids are known at least.
  RecentIds(std::size_t least, std::uint64_t seed) : least_(least), seed_(seed) {}

  /// An id that is known keeps what it was added with.
  void add(std::string_view queue_id, const Accepted& accepted);
  /// nullptr: not known (any more). Valid until the next add().
  const Accepted* find(std::string_view queue_id) const;

 private:
  struct Key {
    std::uint64_t low = 0, high = 0;  // low is never 0 in use
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    Accepted accepted;
  };
  struct Table {
    std::vector<Slot> slots;  // a power of two, or none
    std::size_t used = 0;
    /// Where the key is, or the free slot where it would be. Only if there are slots.
    std::size_t place(const Key& key) const;
    const Accepted* find(const Key& key) const;
    void grow();
  };

  Key key_of(std::string_view queue_id) const;

  std::size_t least_;
  std::uint64_t seed_;
  Table newer_, older_;
};

}  // namespace pen::queue_log
