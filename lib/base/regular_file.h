#pragma once
/// Opens a file by a name that others may have chosen, without touching what is no file.
///
/// Use:     PEN_TRY_ASSIGN(const Fd fd, open_regular_file(path));     // for reading
/// Rule:    a device or a pipe is not even opened: that alone may do something (/dev/watchdog, a tape), or be noticed
///          by the program at the other end.
/// Errors:  errno; EISDIR: a directory; EACCES: neither that nor a file.
/// Thread:  any.
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen {

Result<Fd> open_regular_file(const std::string& path);

}  // namespace pen
