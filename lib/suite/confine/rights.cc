#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "lib/suite/confine/apply.h"
#include "lib/suite/confine/parts.h"

namespace pen::confine {

Result<void> drop_bounding_set(Capabilities kept) {
  for (unsigned long capability = 0;; ++capability) {
    const int there = ::prctl(PR_CAPBSET_READ, capability);
    if (there < 0) return {};  // one that this kernel does not know: there are no more
    const bool keep = capability < 64 && ((kept >> capability) & 1U) != 0;
    if (there == 0 || keep) continue;
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) return fail_errno("capability bounding set");
  }
}

Result<void> keep_capabilities(Capabilities kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return fail_errno("capabilities");
  for (unsigned i = 0; i < 2; ++i) {
    const auto part = static_cast<std::uint32_t>(kept >> (32 * i));
    data[i].permitted &= part;
    data[i].effective &= part;
    data[i].inheritable = 0;
  }
  if (::syscall(SYS_capset, &header, data) != 0) return fail_errno("capabilities");
  // Old kernels have no ambient set.
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
    return fail_errno("ambient capabilities");
  return {};
}

Result<void> take_no_more_rights() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("no new rights");
  return {};
}

// The kernel counts those of the whole account, so this is no budget of one program: threads without end use up the
// account, not the host.
constexpr rlim_t kMostTasks = 16'384;

Result<void> set_limits(Kind kind, bool dumpable) {
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) != 0) return fail_errno("limit of core files");
  core.rlim_cur = 0;
  if (kind == Kind::confined) core.rlim_max = 0;  // users' commands may raise it again
  if (::setrlimit(RLIMIT_CORE, &core) != 0) return fail_errno("limit of core files");
  if (kind == Kind::confined) {
    rlimit tasks{};
    if (::getrlimit(RLIMIT_NPROC, &tasks) != 0) return fail_errno("limit of threads");
    tasks.rlim_max = std::min(tasks.rlim_max, kMostTasks);
    tasks.rlim_cur = std::min(tasks.rlim_cur, tasks.rlim_max);
    if (::setrlimit(RLIMIT_NPROC, &tasks) != 0) return fail_errno("limit of threads");
  }
  // Without it other processes of the account can neither look into this one nor change it.
  if (!dumpable && ::prctl(PR_SET_DUMPABLE, 0) != 0) return fail_errno("core files");
  return {};
}

}  // namespace pen::confine
