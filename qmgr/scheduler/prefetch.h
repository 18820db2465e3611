#pragma once
/// Asks the cache for all of an object at once: its lines then come side by side instead of one after the other. For
/// memory that was not touched lately; nothing waits for the answer, and a wrong guess does no harm.
#include <cstddef>

namespace pen::qmgr {

template <class T>
void prefetch(const T& object) {
  constexpr std::size_t kLine = 64;
  const char* const at = reinterpret_cast<const char*>(&object);
  for (std::size_t i = 0; i < sizeof(T); i += kLine) __builtin_prefetch(at + i);
  __builtin_prefetch(at + sizeof(T) - 1);
}

}  // namespace pen::qmgr
