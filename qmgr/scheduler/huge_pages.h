#pragma once
/// Memory for what a million messages and jobs live in: zeroed, in units of 2 MiB, each one huge page where the system
/// grants it.
///
/// Why:     on pages of 4 KiB each visit to a message that was not touched lately also walks the page tables, which
///          costs as much as the visit.
/// Memory:  the amount is the caller's to bound; throws std::bad_alloc. Pages are taken when they are touched.
#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace pen::qmgr {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// bytes: more than 0, any number. small: on small pages all the same. Released by release_pages(at, bytes).
inline void* take_pages(std::size_t bytes, bool small = false) {
  const bool huge = bytes >= kHugePage && !small;
  const std::size_t around = bytes + (huge ? kHugePage : 0);
  void* const at = ::mmap(nullptr, around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return at;
  auto* const begin = static_cast<unsigned char*>(at);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + bytes, kHugePage - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // refused: slower, not wrong
  return begin + before;
}
inline void release_pages(void* at, std::size_t bytes) { ::munmap(at, bytes); }

}  // namespace pen::qmgr
