#pragma once
/// The bucket that holds a flow to a rate (lib/base/rate.h).
///
/// Use:     Bucket bucket; bucket.set(*rate, now);
///          if (bucket.ready(now)) { bucket.take(now); … }     // else look again at bucket.next()
/// Bucket:  the generic cell rate algorithm: one time instead of a count. What nobody took is kept for a twentieth of
///          a second, so that a timer that comes late costs nothing, and a flow that begins brings no burst.
/// Pure; time is a parameter. Whole numbers only, so that equal events give equal times everywhere.
#include "lib/base/rate.h"

namespace pen::shaping {

using pen::parse_rate;
using pen::parse_rates;
using pen::Quota;
using pen::Rate;
using pen::Rates;
using pen::to_string;
using std::chrono::nanoseconds;

class Bucket {
 public:
  /// What was taken beyond the rate so far counts on, at the new rate.
  void set(Rate rate, SteadyTime now);
  Rate rate() const { return rate_; }
  bool ready(SteadyTime now) const { return !rate_.limits() || now >= next(); }
  /// From when it is ready.
  SteadyTime next() const { return due_; }
  void take(SteadyTime now);

 private:
  Rate rate_;
  nanoseconds interval_{0};
  SteadyTime due_{};  // when the next may come
};

}  // namespace pen::shaping
