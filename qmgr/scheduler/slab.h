#pragma once
/// Objects of one type in large blocks, found by a number in constant time: what a million messages and jobs live in.
///
/// Why:     an allocation and a hash node for each of a million jobs cost more than what the scheduler does with them:
///          each is another cache line, and on pages of 4 KiB another walk of the page tables, that was not touched
///          lately. Blocks after the first ones are huge pages where the system grants them (huge_pages.h).
/// Use:     T begins its life by make(number…) and ends by destroy(). Pointers stay valid until then. A number has the
///          slot in its low half and, above it, how often the slot was used: find() distinguishes a number that has
///          gone from the one that came after it. Numbers are never 0.
/// Order:   for_each goes by slots, the same for the same history.
/// Memory:  kept for re-use until the slab dies.
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "qmgr/scheduler/huge_pages.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PEN_SLAB_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(PEN_SLAB_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace pen::qmgr {

template <class T>
class Slab {
  static constexpr std::uint32_t kLive = ~std::uint32_t{0};
  struct Slot {
    std::uint32_t uses = 0;
    std::uint32_t next = 0;  // free slot after this one, as index + 1; kLive: it is in use
    alignas(T) unsigned char bytes[sizeof(T)];
    T* object() { return std::launder(reinterpret_cast<T*>(bytes)); }
  };
  static constexpr std::size_t kSlots = kHugePage / sizeof(Slot);  // of a block
  static_assert(kSlots > 1);
  // The first blocks stay on small pages: zeroing a huge page stops all work for milliseconds, and as long as this
  // little is visited the page tables stay in the caches.
  static constexpr std::size_t kSmallBlocks = 16;

 public:
  struct Made {
    std::uint64_t number;
    T& object;
  };

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    for_each([](T& object) { object.~T(); });
    for (Slot* block : blocks_) {
      for (std::size_t i = 0; i < kSlots; ++i) unpoison(block[i].bytes);
      release_pages(block, kHugePage);
    }
  }

  template <class... Arguments>
  Made make(Arguments&&... arguments) {
    if (free_ == 0) grow();
    const std::uint32_t index = free_ - 1;
    Slot& s = slot(index);
    free_ = s.next;
    s.next = kLive;
    ++s.uses;
    ++size_;
    unpoison(s.bytes);
    T* const object = ::new (static_cast<void*>(s.bytes)) T(std::forward<Arguments>(arguments)...);
    return {std::uint64_t{s.uses} << 32U | index, *object};
  }
  /// PEN_CHECKs that the number is a living object's.
  void destroy(std::uint64_t number) {
    T* const object = find(number);
    PEN_CHECK(object != nullptr, "an object is destroyed twice");
    object->~T();
    poison(object);
    const auto index = static_cast<std::uint32_t>(number);
    Slot& s = slot(index);
    s.next = free_;
    free_ = index + 1;
    --size_;
  }
  /// nullptr: it has gone, or never was.
  T* find(std::uint64_t number) {
    const auto index = static_cast<std::uint32_t>(number);
    if (index >= used_) return nullptr;
    Slot& s = slot(index);
    return s.next == kLive && s.uses == number >> 32U ? s.object() : nullptr;
  }
  /// f may not make or destroy objects.
  template <class F>
  void for_each(F&& f) {
    for (std::uint32_t i = 0; i < used_; ++i) {
      if (Slot& s = slot(i); s.next == kLive) f(*s.object());
    }
  }
  std::size_t size() const { return size_; }

 private:
  // A use after destroy() is seen under AddressSanitizer, as with memory of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(PEN_SLAB_ASAN)
  static void poison(void* at) { __asan_poison_memory_region(at, sizeof(T)); }
  static void unpoison(void* at) { __asan_unpoison_memory_region(at, sizeof(T)); }
#else
  static void poison(void*) {}
  static void unpoison(void*) {}
#endif
  Slot& slot(std::uint32_t index) { return blocks_[index / kSlots][index % kSlots]; }
  void grow() {
    if (used_ == blocks_.size() * kSlots) {
      const bool small = blocks_.size() < kSmallBlocks;
      blocks_.push_back(static_cast<Slot*>(take_pages(kHugePage, small)));
    }
    ::new (static_cast<void*>(&slot(used_))) Slot;
    free_ = ++used_;
  }
  std::vector<Slot*> blocks_;
  std::uint32_t used_ = 0;  // slots that were ever used
  std::uint32_t free_ = 0;  // the first free slot's index + 1; 0: none
  std::size_t size_ = 0;
};

}  // namespace pen::qmgr
