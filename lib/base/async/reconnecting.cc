#include "lib/base/async/reconnecting.h"

#include <algorithm>

namespace pen::async {

Reconnecting::Reconnecting(Loop& loop, Options options, Attempt attempt, Ended ended)
    : loop_(loop),
      options_(options),
      attempt_(std::move(attempt)),
      ended_(std::move(ended)),
      pace_(options.pace),
      wanted_(loop),
      hurried_(loop) {}

void Reconnecting::start(std::string name) {
  gate_.emplace(loop_);
  gate_->spawn(std::move(name), run());
}

bool Reconnecting::connected() {
  since_ = loop_.now();
  ++connections_;
  failures_ = 0;
  last_error_.clear();
  wanted_.reset();
  return std::exchange(down_, false);
}

void Reconnecting::hurry() {
  wanted_.set();
  hurried_.set();
}

Task<void> Reconnecting::run() {
  for (;;) {
    if (options_.on_demand) (void)co_await wanted_.wait();
    wanted_.reset();
    hurried_.reset();
    Error why = co_await attempt_();
    const SteadyTime since = std::exchange(since_, kNever);
    const bool lost = since != kNever;
    if (!lost) ++failures_;
    last_error_ = why.message();
    ended_({std::move(why), lost, failures_, !std::exchange(down_, true)});
    co_await pause(pace_.next(lost ? loop_.now() - since : std::chrono::nanoseconds(0)));
  }
}

Task<void> Reconnecting::pause(milliseconds time) {
  time = std::max(time, options_.pace.first);  // the owner has a moment to do without
  if (options_.jitter != nullptr)
    time -= milliseconds(options_.jitter->below(static_cast<std::uint64_t>(time.count() / 4) + 1));
  const SteadyTime over = loop_.now() + time;
  (void)co_await loop_.sleep(std::min(time, options_.pace.first));
  if (loop_.now() < over) (void)co_await hurried_.wait({.deadline = over});
}

}  // namespace pen::async
