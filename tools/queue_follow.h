#pragma once
/// penqueue --follow: the life of a message as it goes, until it leaves the queue; or of all messages.
///
/// Use:     return follow_queue("penqueue", config, id, json);     id: empty: all, until somebody stops it
/// Returns: 0: all recipients that were left were delivered to; kReturned; kDeleted; EX_DATAERR: no such message;
///          EX_TEMPFAIL: it went while nobody could be asked; EX_NOPERM, EX_UNAVAILABLE.
#include <optional>
#include <string>

#include "lib/config/config.h"
#include "lib/suite/ipc/queue.h"

namespace pen::tools {

inline constexpr int kReturned = 1, kDeleted = 2;

int follow_queue(const std::string& program, const config::Config& config, const std::string& queue_id, bool json);

/// What is said of one step, and how the message ended. Pure.
class Followed {
 public:
  explicit Followed(bool json) : json_(json) {}
  /// What the message is when it is first seen; with a line for each recipient that waits.
  std::string state(const ipc::queue::Entry& entry, WallTime now);
  std::string step(const ipc::queue::Happened& what);
  /// The exit status, once the message has left.
  std::optional<int> ended() const { return ended_; }

 private:
  bool json_;
  bool returned_ = false;  // somebody's mail goes back to the sender
  std::optional<int> ended_;
};

}  // namespace pen::tools
