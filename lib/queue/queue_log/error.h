#pragma once
/// What can go wrong in the queue log, what causes it, and what the process does then.
///
/// no_space      the disk, or the reserve that deliveries need: 452 4.3.1 to the client, try later
/// too_large     the caller: the record can never fit (552 5.3.4)
/// io_error      the disk: the log is dead from now on, the process ends, recovery reads what is really there
/// damaged       a record that was asked for by position is not readable: report it and go on
/// not_found     no such message is being worked on, or no such record at that place (any more)
/// other_version the storage holds a queue of another version of the format: nothing was touched, the process ends
/// superseded    the message is there a second time, and the other version counts: this one is garbage from now on
/// recovering    deliveries wait until recovery has ended (new mail does not)
#include <string_view>

#include "lib/base/result.h"

namespace pen::queue_log {

enum class QueueLogError {
  no_space = 1,
  too_large,
  io_error,
  damaged,
  not_found,
  recovering,
  other_version,
  superseded
};
inline std::string_view error_module(QueueLogError) { return "queue log"; }
inline std::string_view describe(QueueLogError e) {
  switch (e) {
    case QueueLogError::no_space:
      return "no space left in the queue log";
    case QueueLogError::too_large:
      return "too large for the queue log";
    case QueueLogError::io_error:
      return "queue log input/output error";
    case QueueLogError::damaged:
      return "damaged record";
    case QueueLogError::not_found:
      return "no such message";
    case QueueLogError::recovering:
      return "recovery has not ended";
    case QueueLogError::other_version:
      return "another version of the queue's format";
    case QueueLogError::superseded:
      return "another version of the message counts";
  }
  return "unknown";
}

}  // namespace pen::queue_log
