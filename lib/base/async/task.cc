#include "lib/base/async/task.h"

#include <cstdlib>
#include <new>

namespace pen::async {

#ifdef PEN_SANITIZED  // a sanitizer notices the use of a freed frame only when the frame is really freed

namespace {
thread_local std::size_t live = 0;
}

std::size_t live_frames() { return live; }

void* allocate_frame(std::size_t size) {
  ++live;
  void* frame = std::malloc(size);
  if (!frame) throw std::bad_alloc();
  return frame;
}

void release_frame(void* frame, std::size_t) noexcept {
  --live;
  std::free(frame);
}

#else

namespace {

// Size classes of 64 bytes up to 4 KiB. Each class keeps at most 256 KiB of free frames, so that
// the memory of a burst of sessions goes back to the allocator.
constexpr std::size_t kStep = 64;
constexpr std::size_t kClasses = 64;
constexpr std::size_t kKeepBytes = 256 * 1024;

struct FreeFrame {
  FreeFrame* next;
};
struct FreeList {
  FreeFrame* head = nullptr;
  std::size_t count = 0;
};
// Trivially destructible: frames may be released while a thread's other thread_local objects are destroyed.
struct Frames {
  FreeList lists[kClasses];
  std::size_t live = 0;
};
thread_local Frames frames;

// The free lists of a thread other than the main one must not leak when it ends.
struct Cleaner {
  bool used = false;
  ~Cleaner() {
    for (FreeList& list : frames.lists) {
      while (list.head) std::free(std::exchange(list.head, list.head->next));
      list.count = 0;
    }
  }
};
thread_local Cleaner cleaner;

std::size_t class_of(std::size_t size) { return (size + kStep - 1) / kStep - 1; }

}  // namespace

std::size_t live_frames() { return frames.live; }

void* allocate_frame(std::size_t size) {
  ++frames.live;
  if (const std::size_t c = class_of(size); c < kClasses) {
    FreeList& list = frames.lists[c];
    if (list.head) {
      --list.count;
      return std::exchange(list.head, list.head->next);
    }
    size = (c + 1) * kStep;
  }
  void* frame = std::malloc(size);
  if (!frame) throw std::bad_alloc();  // nobody catches: the process dies, as on any lack of memory
  return frame;
}

void release_frame(void* frame, std::size_t size) noexcept {
  --frames.live;
  const std::size_t c = class_of(size);
  if (c >= kClasses || (frames.lists[c].count + 1) * (c + 1) * kStep > kKeepBytes) {
    std::free(frame);
    return;
  }
  FreeList& list = frames.lists[c];
  if (!list.head) cleaner.used = true;  // the first use in a thread arranges for the cleaner's destruction
  auto* free_frame = static_cast<FreeFrame*>(frame);
  free_frame->next = list.head;
  list.head = free_frame;
  ++list.count;
}

#endif

}  // namespace pen::async
