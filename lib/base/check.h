#pragma once
/// PEN_CHECK: a condition that only a bug of ours can break. It is active in every build; a failure is logged with its
/// place, and the program aborts.
///
/// Use:     PEN_CHECK(position >= start); PEN_CHECK(open, "append after close");
/// Not for: anything that a peer, a disk or a configuration can cause: that is a Result (result.h).

namespace pen {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* why = nullptr);
/// Called with one line of text before the abort; the log module puts itself here. Async-signal-unsafe.
void set_check_handler(void (*handler)(const char* line));
}  // namespace pen

#define PEN_CHECK(condition, ...)         \
  (static_cast<bool>(condition) ? void(0) \
                                : ::pen::check_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__))
