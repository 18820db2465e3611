#include "lib/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace pen {
namespace {
std::atomic<void (*)(const char*)> check_handler{nullptr};
}

void set_check_handler(void (*handler)(const char* line)) { check_handler = handler; }

void check_failed(const char* condition, const char* file, int line, const char* why) {
  char text[512];
  std::snprintf(text, sizeof text, "check failed: %s (%s:%d)%s%s", condition, file, line, why ? ": " : "",
                why ? why : "");
  if (auto* handler = check_handler.load())
    handler(text);
  else
    std::fprintf(stderr, "panic: %s\n", text);
  std::abort();
}
}  // namespace pen
