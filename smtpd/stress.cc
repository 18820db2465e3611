#include "smtpd/stress.h"

namespace pen::smtpd {

Stress::Marks Stress::sessions(std::size_t limit) {
  constexpr std::size_t kFew = 2;
  if (limit < kFew || limit == SIZE_MAX) return {};
  return {.begin = limit, .end = limit / 4 * 3 + limit % 4 * 3 / 4, .rest = seconds(10)};
}

Stress::Marks Stress::tests(std::size_t limit) {
  const auto part = [&](std::size_t tenths) { return limit / 10 * tenths + limit % 10 * tenths / 10; };
  return {.begin = part(9), .end = part(7), .rest = {}};
}

Stress::Stress(async::Loop& loop, Marks marks, std::function<void(bool on, std::size_t taken)> changed)
    : loop_(loop), marks_(marks), changed_(std::move(changed)) {}

void Stress::take() {
  ++taken_;
  if (taken_ > marks_.end) rest_ = {};
  if (on_ || taken_ < marks_.begin) return;
  on_ = true;
  since_ = loop_.now();
  changed_(true, taken_);
  begins_.raise();
}

void Stress::give_back() {
  --taken_;
  if (!on_ || taken_ > marks_.end || rest_) return;
  if (marks_.rest == milliseconds(0)) return end();
  rest_ = loop_.call_at(loop_.now() + marks_.rest, [this] { end(); });
}

void Stress::end() {
  rest_ = {};
  on_ = false;
  begins_.reset();
  changed_(false, taken_);
}

}  // namespace pen::smtpd
