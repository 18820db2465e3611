#pragma once
/// flock(), and fcntl()'s lock that belongs to an open file, with a time limit.
///
/// Use:     if (auto locked = lock_file(fd, seconds(10)); !locked && locked.error().is_errno(EWOULDBLOCK)) … busy
/// Owns:    nothing: the lock belongs to the open file and ends with its last descriptor.
/// Thread:  only for a process with a single thread: an alarm signal ends the wait.
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen {

/// Takes an exclusive lock on the file as soon as the kernel grants it; with patience 0 it does not wait. Errors:
/// EWOULDBLOCK, another process still holds the lock when the time is over; errno of flock().
Result<void> lock_file(int fd, seconds patience);

/// The same by F_OFD_SETLK: whether somebody holds this lock, F_OFD_GETLK tells without taking it.
Result<void> lock_open_file(int fd, seconds patience);

}  // namespace pen
