#pragma once
/// Which messages were accepted lately, and where: what makes append() idempotent by queue id.
///
/// Use:     RecentIds ids(65536, seed); ids.add("4bX…", {ticket, position});
///          if (const auto* known = ids.find("4bX…")) …
/// Memory:  two generations, each of at most half as many ids as asked for: when the newer one is full, the older one
///          is emptied and they change places. So an id costs no allocation, and forgetting costs nothing. About 72
///          bytes an id. A look-up of an id that is not there, as almost all are, touches a line of memory in each.
/// Keys:    XXH3-128 of the id with a seed, so that two ids are never taken for one, even if an attacker chose them.
/// No I/O.
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/queue/queue_log/message.h"

namespace pen::queue_log {

class RecentIds {
 public:
  struct Accepted {
    std::uint64_t ticket = 0;
    Position position;
    WallTime arrived = WallTime::min();  // of the message; min(): it is not known
  };

  /// `most`: so many ids are known at most, and half as many at least.
  RecentIds(std::size_t most, std::uint64_t seed) : half_((most + 1) / 2), seed_(seed) {}

  struct Key {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  /// What the id is kept under: for callers that look it up and then add it.
  Key key_of(std::string_view queue_id) const;
  /// It will be looked up soon: its places come into the cache meanwhile.
  void prefetch(const Key& key) const {
    newer_.prefetch(key);
    older_.prefetch(key);
  }

  /// An id that is known keeps what it was added with; an arrival that was not known is filled in.
  void add(const Key& key, const Accepted& accepted);
  void add(std::string_view queue_id, const Accepted& accepted) { add(key_of(queue_id), accepted); }
  /// One that is known, too, gets this.
  void set(const Key& key, const Accepted& accepted);
  /// The same for one that find() did not know.
  void add_new(const Key& key, const Accepted& accepted);
  /// nullptr: not known (any more). Valid until the next add.
  const Accepted* find(const Key& key) const;
  const Accepted* find(std::string_view queue_id) const { return find(key_of(queue_id)); }
  /// How often the older half was forgotten.
  std::uint64_t forgettings() const { return forgettings_; }

 private:
  struct Entry {
    Key key;
    Accepted accepted;
  };
  struct Slot {
    std::uint32_t tag = 0;    // of the key
    std::uint32_t entry = 0;  // counted from 1; 0: free
  };
  struct Generation {
    std::vector<Entry> entries;
    std::vector<Slot> slots;  // a power of two and at least twice as many as entries, or none

    const Accepted* find(const Key& key) const;
    void prefetch(const Key& key) const {
      if (!slots.empty()) __builtin_prefetch(&slots[key.high & (slots.size() - 1)]);
    }
    /// A new key. most: entries there will be at most.
    void add(const Key& key, const Accepted& accepted, std::size_t most);
    void place(std::size_t entry);
    void clear();
  };

  std::size_t half_;
  std::uint64_t seed_;
  Generation newer_, older_;
  std::uint64_t forgettings_ = 0;
};

}  // namespace pen::queue_log
