#pragma once
/// Whether a service runs under stress: nearly all of its places are taken. Settings that refer to $stress then have
/// their other values (docs/smtpd.md, "Under stress").
///
/// Use:     Stress stress(loop, Stress::sessions(limit), [](bool on, std::size_t taken) { … log … });
///          const Stress::Taken taken(stress);          // for the lifetime of a session
///          if (stress.on()) … ;  co_await stream.read_line(max, {.deadline = …, .cancel = &stress.begins()});
/// Marks:   it begins when so many places are taken, and ends when no more than the lower mark were taken for a while:
///          a service at its limit would otherwise change its mind with every session that ends.
/// Thread:  the loop's. Outlives every Taken.
#include <functional>
#include <utility>

#include "lib/base/async/loop.h"

namespace pen::smtpd {

class Stress {
 public:
  struct Marks {
    std::size_t begin = SIZE_MAX, end = 0;  // places taken; SIZE_MAX: it never begins
    milliseconds rest{0};                   // how long no more than `end` must be taken
  };
  /// Of sessions that are served: at the limit. A service of one session at a time would be under stress always.
  static Marks sessions(std::size_t limit);
  /// Of clients that are tested, as postscreen has them.
  static Marks tests(std::size_t limit);

  /// changed: called at each begin and end.
  Stress(async::Loop& loop, Marks marks, std::function<void(bool on, std::size_t taken)> changed);

  bool on() const { return on_; }
  /// When it began; only while on().
  SteadyTime since() const { return since_; }
  /// Raised from begin to end: for waits that are shorter under stress.
  async::Cancel& begins() { return begins_; }
  /// Ends the waits for begins(), whatever the load is.
  void wake() {
    begins_.raise();
    if (!on_) begins_.reset();
  }
  std::size_t taken() const { return taken_; }

  /// One place.
  class Taken {
   public:
    explicit Taken(Stress& stress) : stress_(&stress) { stress.take(); }
    Taken(Taken&& other) noexcept : stress_(std::exchange(other.stress_, nullptr)) {}
    Taken& operator=(Taken&& other) noexcept {
      std::swap(stress_, other.stress_);
      return *this;
    }
    ~Taken() {
      if (stress_) stress_->give_back();
    }

   private:
    Stress* stress_;
  };

 private:
  void take();
  void give_back();
  void end();

  async::Loop& loop_;
  const Marks marks_;
  std::function<void(bool, std::size_t)> changed_;
  async::Cancel begins_;
  async::Loop::TimerHandle rest_;
  SteadyTime since_{};
  std::size_t taken_ = 0;
  bool on_ = false;
};

}  // namespace pen::smtpd
