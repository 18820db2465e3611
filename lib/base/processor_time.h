#pragma once
/// Processor time that the calling thread has used: a measure of cost that does not depend on how busy the machine is.
#include <chrono>
#include <ctime>

namespace pen {

inline std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace pen
