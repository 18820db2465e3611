#include "keeper/course.h"

#include <sysexits.h>

namespace pen::keeper {

Next Course::after(const End& end, bool keeps) {
  const int status = end.killed ? EX_SOFTWARE : end.value;
  const bool first = !started_ && !end.ready;
  started_ = started_ || end.ready;
  if (end.meant || first || (!end.killed && end.value == EX_OK)) return {.status = status};
  Next next{.start = true, .status = status, .pause = pace_.next(end.served)};
  next.let_go = end.killed && keeps && in_a_row() >= kLetsGo;
  if (in_a_row() >= kMost && (!keeps || next.let_go)) next.start = false;
  return next;
}

}  // namespace pen::keeper
