#include "smtpd/queue_space.h"

#include <sys/statvfs.h>

#include <limits>

namespace pen::smtpd {

bool QueueSpace::below(std::uint64_t bytes) {
  const SteadyTime now = clock_.now();
  if (now >= next_) {
    next_ = now + seconds(1);
    struct statvfs facts{};
    free_ = std::numeric_limits<std::uint64_t>::max();
    if (::statvfs(directory_.c_str(), &facts) == 0) free_ = std::uint64_t{facts.f_bavail} * facts.f_frsize;
  }
  return free_ < bytes;
}

}  // namespace pen::smtpd
