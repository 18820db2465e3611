#pragma once
/// From numbers that others chose to pointers: open addressing, four neighbours to a cache line.
///
/// Numbers that follow each other lie together, so that messages that come, or go, in order find their entries in the
/// cache. No entry is allocated; at most half of the table is in use, and it never shrinks.
/// Use:     for any numbers; the table does not own what they stand for. There is no iterator: no code may walk over
///          all messages.
#include <cstdint>
#include <utility>

#include "lib/base/check.h"
#include "qmgr/scheduler/huge_pages.h"

namespace pen::qmgr {

template <class T>
class NumberTable {
 public:
  NumberTable() : entries_(make(mask_ + 1)) {}
  NumberTable(const NumberTable&) = delete;
  NumberTable& operator=(const NumberTable&) = delete;
  ~NumberTable() { release_pages(entries_, (mask_ + 1) * sizeof(Entry)); }
  /// nullptr: unknown.
  T* find(std::uint64_t number) const {
    for (std::size_t i = home(number);; i = (i + 1) & mask_) {
      const Entry& e = entries_[i];
      if (e.object == nullptr || e.number == number) return e.object;
    }
  }
  /// The number will be looked up soon: its place comes into the cache meanwhile.
  void prefetch(std::uint64_t number) const { __builtin_prefetch(&entries_[home(number)]); }
  /// The number must not be in the table.
  void insert(std::uint64_t number, T* object) {
    PEN_CHECK(object != nullptr);
    if (2 * (size_ + 1) > mask_ + 1) grow();
    put(number, object);
    ++size_;
  }
  /// The number must be in the table.
  void erase(std::uint64_t number) {
    std::size_t hole = home(number);
    for (;; hole = (hole + 1) & mask_) {
      PEN_CHECK(entries_[hole].object != nullptr, "an unknown number is erased");
      if (entries_[hole].number == number) break;
    }
    // What stands behind moves up as far as its home allows, so that no search ends too early.
    for (std::size_t i = (hole + 1) & mask_; entries_[i].object != nullptr; i = (i + 1) & mask_) {
      const std::size_t wanted = home(entries_[i].number);
      if (((i - wanted) & mask_) < ((i - hole) & mask_)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole] = {};
    --size_;
  }
  std::size_t size() const { return size_; }

 private:
  struct Entry {
    std::uint64_t number;
    T* object;  // nullptr: the entry is empty
  };
  std::size_t home(std::uint64_t number) const {
    const std::uint64_t group = (number >> 2U) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>((group >> 32U) << 2U | (number & 3U)) & mask_;
  }
  void put(std::uint64_t number, T* object) {
    std::size_t i = home(number);
    while (entries_[i].object != nullptr) i = (i + 1) & mask_;
    entries_[i] = {number, object};
  }
  static Entry* make(std::size_t count) {
    return static_cast<Entry*>(take_pages(count * sizeof(Entry)));  // zeroes are empty entries
  }
  void grow() {
    const std::size_t count = mask_ + 1;
    Entry* const old = std::exchange(entries_, make(2 * count));
    mask_ = 2 * count - 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (old[i].object != nullptr) put(old[i].number, old[i].object);
    }
    release_pages(old, count * sizeof(Entry));
  }
  std::size_t mask_ = 255;
  Entry* entries_;
  std::size_t size_ = 0;
};

}  // namespace pen::qmgr
