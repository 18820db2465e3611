#pragma once
/// The free space of the queue's file system, for queue_minfree.
///
/// Use:     QueueSpace space(clock, queue_directory); if (space.below(bytes)) … refuse mail
/// Speed:   asks the system at most once a second; sessions share the answer.
/// Errors:  what cannot be asked counts as enough: qmgr has its own limit, and says so.
/// Thread:  the loop's.
#include <cstdint>
#include <string>

#include "lib/base/time.h"

namespace pen::smtpd {

class QueueSpace {
 public:
  QueueSpace(const Clock& clock, std::string directory) : clock_(clock), directory_(std::move(directory)) {}
  /// Whether fewer bytes than these are free.
  bool below(std::uint64_t bytes);
  /// What the last below() saw.
  std::uint64_t free() const { return free_; }

 private:
  const Clock& clock_;
  std::string directory_;
  SteadyTime next_ = SteadyTime::min();
  std::uint64_t free_ = 0;
};

}  // namespace pen::smtpd
