#include "keeper/course.h"

#include <sysexits.h>

namespace pen::keeper {

/// This is the kLetsGo-th end by a signal within kWindow.
bool Course::killed_often(const End& end) {
  if (!end.killed) return false;
  kills_.push_back(end.at);
  if (kills_.size() > kLetsGo) kills_.pop_front();
  return kills_.size() == kLetsGo && end.at - kills_.front() <= kWindow;
}

Next Course::after(const End& end, bool keeps) {
  const int status = end.killed ? EX_SOFTWARE : end.value;
  const bool unheard = !end.ready && end.lived >= kSurelyReady, ready = end.ready || unheard;
  const bool first = !started_ && !ready;
  started_ = started_ || ready;
  if (end.meant || first || (!end.killed && end.value == EX_OK)) return {.status = status};
  Next next{.start = true, .status = status, .pause = pace_.next(unheard ? end.lived : end.served)};
  const bool often = killed_often(end);
  next.let_go = end.killed && keeps && (often || in_a_row() >= kLetsGo);
  if (next.let_go) kills_.clear();
  if (in_a_row() >= kMost && (!keeps || next.let_go)) next.start = false;
  return next;
}

}  // namespace pen::keeper
