#pragma once
/// Deliberate mistakes that a test can switch on, to show that the crash tests would catch them. They are compiled in
/// only where PEN_BREAKABLE is defined, for those tests (cmake/penstock.cmake); shipped programs contain none.
///
/// Use:     enum class Breakage { none, skip_sync, last };    // one enum for each module; its first value: none
///          if (!broken(Breakage::skip_sync)) sync();         // in the module's .cc, which is listed as BREAKABLE
///          const BreakageScope scope(Breakage::skip_sync);   // in a test
/// Bounds:  one mistake of each enum at a time.
/// Thread:  switched by one thread while no other runs.
#include <type_traits>

namespace pen {

#ifdef PEN_BREAKABLE

namespace detail {
template <class Breakage>
inline Breakage current_breakage = Breakage::none;
}

template <class Breakage>
  requires std::is_enum_v<Breakage>
bool broken(Breakage b) {
  return detail::current_breakage<Breakage> == b;
}

template <class Breakage>
class BreakageScope {
 public:
  explicit BreakageScope(Breakage b) { detail::current_breakage<Breakage> = b; }
  ~BreakageScope() { detail::current_breakage<Breakage> = Breakage::none; }
  BreakageScope(const BreakageScope&) = delete;
  BreakageScope& operator=(const BreakageScope&) = delete;
};

#else

template <class Breakage>
  requires std::is_enum_v<Breakage>
consteval bool broken(Breakage) {
  return false;
}

#endif

}  // namespace pen
