#pragma once
/// An object that counts its copies, moves and living instances, so that tests can check claims about lifetime.
///
/// Use:     Counted::reset();
///          { … Counted value … }
///          BOOST_TEST(Counted::alive == 0); BOOST_TEST(Counted::copies == 0);
/// Thread:  one.
#include <utility>

namespace pen::testing {

struct Counted {
  static inline int alive = 0, copies = 0, moves = 0;
  static void reset() { alive = copies = moves = 0; }

  explicit Counted(int v = 0) : value(v) { ++alive; }
  Counted(const Counted& o) : value(o.value) {
    ++alive;
    ++copies;
  }
  Counted(Counted&& o) noexcept : value(std::exchange(o.value, -1)) {
    ++alive;
    ++moves;
  }
  Counted& operator=(const Counted& o) {
    value = o.value;
    ++copies;
    return *this;
  }
  Counted& operator=(Counted&& o) noexcept {
    value = std::exchange(o.value, -1);
    ++moves;
    return *this;
  }
  ~Counted() { --alive; }

  int value;
};

}  // namespace pen::testing
