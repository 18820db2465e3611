#pragma once
/// Why a wait failed.
#include <string_view>

#include "lib/base/result.h"

namespace pen::async {

enum class WaitError {
  timed_out = 1,  // the deadline passed
  cancelled,      // the Cancel was raised
  closed,         // end of input, or this side was closed
  full,           // a bounded queue has no room
  line_too_long,  // no line end within the permitted size
};
inline std::string_view error_module(WaitError) { return "wait"; }
inline std::string_view describe(WaitError e) {
  switch (e) {
    case WaitError::timed_out:
      return "timed out";
    case WaitError::cancelled:
      return "cancelled";
    case WaitError::closed:
      return "connection closed";
    case WaitError::full:
      return "queue full";
    case WaitError::line_too_long:
      return "line too long";
  }
  return "unknown";
}

}  // namespace pen::async
