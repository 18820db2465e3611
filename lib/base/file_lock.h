#pragma once
/// flock() with an end to the wait.
///
/// Use:     if (auto locked = lock_file(fd, seconds(10)); !locked && locked.error().is_errno(EWOULDBLOCK)) … somebody
///          has it
/// Owns:    nothing: the lock is the open file's, and goes with its last descriptor.
/// Thread:  of a process that has no other yet: an alarm signal ends the wait.
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen {

/// Takes the file's lock for ourselves alone, as soon as the kernel gives it. patience 0: now or not. Errors:
/// EWOULDBLOCK, another holds it and the time is over; errno of flock().
Result<void> lock_file(int fd, seconds patience);

}  // namespace pen
