#pragma once
/// The future in virtual time: a heap of small events; those at equal times come in the order of their addition.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/time.h"

namespace pen::simulation {

struct Event {
  enum class Kind : std::uint8_t {
    arrival,    // the next message of the workload
    looked_up,  // a: message, b: ordinal
    connected,  // a: connection
    result,     // a: connection
    again,      // a: message: its next round
    sample,     // note the state for the plots
    leases,     // carry out the decisions on session leases
    call,       // a: callers: the next client of this kind arrives
    hang_up     // a: lease: a client leaves
  };
  SteadyTime at{};
  std::uint64_t order = 0;
  std::uint64_t a = 0;
  std::uint32_t b = 0;
  Kind kind = Kind::arrival;
};

class Events {
 public:
  void add(SteadyTime at, Event::Kind kind, std::uint64_t a = 0, std::uint32_t b = 0) {
    heap_.push_back({at, ++order_, a, b, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool empty() const { return heap_.empty(); }
  SteadyTime next() const { return heap_.empty() ? kNever : heap_.front().at; }
  Event take() {
    PEN_CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event e = heap_.back();
    heap_.pop_back();
    return e;
  }

 private:
  static bool later(const Event& x, const Event& y) { return std::tie(x.at, x.order) > std::tie(y.at, y.order); }
  std::vector<Event> heap_;
  std::uint64_t order_ = 0;
};

}  // namespace pen::simulation
