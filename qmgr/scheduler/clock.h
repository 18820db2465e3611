#pragma once
/// The time of the event under way: all parts of the scheduler read this one, which Scheduler::set_time() sets.
#include "lib/base/time.h"

namespace pen::qmgr::scheduler {

struct Clock {
  SteadyTime now{};  // never goes back
  WallTime wall{};   // of what destdb remembers
};

}  // namespace pen::qmgr::scheduler
