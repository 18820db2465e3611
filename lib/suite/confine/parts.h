#pragma once
/// The parts of a Confinement, one file each. Errors: errno of the kernel's refusal.
/// Thread:  as in apply.h.
#include "lib/base/result.h"
#include "lib/suite/confine/plan.h"

namespace pen::confine {

/// rights.cc
Result<void> drop_bounding_set(Capabilities kept);
Result<void> take_no_more_rights();
Result<void> set_limits(Kind kind, bool dumpable);

/// files.cc. False: the kernel has no Landlock that is of use.
Result<bool> restrict_files(const Plan& plan);

/// calls.cc. False: the kernel has no filters.
Result<bool> restrict_calls(const Plan& plan, int report);

}  // namespace pen::confine
