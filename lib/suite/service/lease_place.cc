#include "lib/suite/service/lease_place.h"

#include <fmt/format.h>
#include <sys/statfs.h>

namespace pen::service {
namespace {

// linux/magic.h has not all of them.
constexpr long kNfs = 0x6969, kSmb = 0x517B, kCifs = 0xFF534D42, kSmb2 = 0xFE534D42, kFuse = 0x65735546,
               k9p = 0x01021997, kAfs = 0x5346414F, kOverlay = 0x794C7630;
// What servers of NFSv4 have as a rule, and the time in which a clock and a server may be late.
constexpr seconds kNfsLease{90}, kSlack{15};

const char* unsure(long type) {
  switch (type) {
    case kSmb:
    case kCifs:
    case kSmb2:
      return "SMB";
    case kFuse:
      return "FUSE";
    case k9p:
      return "9P";
    case kAfs:
      return "AFS";
    case kOverlay:
      return "overlay";
    default:
      return nullptr;
  }
}

}  // namespace

std::string doubt_of_lock_on(long type, milliseconds lease_time) {
  if (const char* name = unsure(type))
    return fmt::format(
        "standby_lease: the lock lies on a file system ({}) whose locks may hold on one host alone, or become another "
        "host's at once: use redis",
        name);
  if (type == kNfs && lease_time > kNfsLease - kSlack)
    return fmt::format(
        "standby_lease_time: {} s are not shorter than what a server of NFS leaves a lock to a host that is gone ({} s "
        "as a rule): another host may run the queue before this one has stopped",
        std::chrono::ceil<seconds>(lease_time).count(), kNfsLease.count());
  return {};
}

std::string doubt_of_lock(const std::string& directory, milliseconds lease_time) {
  struct statfs st{};
  if (::statfs(directory.c_str(), &st) != 0) return {};
  return doubt_of_lock_on(static_cast<long>(static_cast<unsigned long>(st.f_type) & 0xFFFFFFFFUL), lease_time);
}

}  // namespace pen::service
