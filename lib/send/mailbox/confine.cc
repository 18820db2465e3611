#include "lib/send/mailbox/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "lib/base/fd.h"

namespace pen::mailbox {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kProcessor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kProcessor = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::uint32_t kProcessor = AUDIT_ARCH_RISCV64;
#else
constexpr std::uint32_t kProcessor = 0;
#endif

constexpr std::uint32_t kKept = (1U << CAP_SETUID) | (1U << CAP_SETGID);
constexpr std::uint32_t kNobody = 65534;   // the kernel's uid for unknown accounts
constexpr std::uint32_t kUnchanged = ~0U;  // an unchanged uid or gid for setresuid() and setresgid()

// The calls that the C library and store.cc make. Any other call fails with EPERM.
constexpr long kCalls[] = {
    SYS_read,         SYS_write,           SYS_recvfrom,     SYS_sendto,     SYS_ppoll,
    SYS_openat,       SYS_close,           SYS_fstat,        SYS_newfstatat, SYS_statx,
    SYS_mkdirat,      SYS_linkat,          SYS_unlinkat,     SYS_renameat2,  SYS_fsync,
    SYS_ftruncate,    SYS_pread64,         SYS_lseek,        SYS_flock,      SYS_clock_nanosleep,
    SYS_nanosleep,    SYS_clock_gettime,   SYS_gettimeofday, SYS_getpid,     SYS_gettid,
    SYS_geteuid,      SYS_getegid,         SYS_munmap,       SYS_mremap,     SYS_madvise,
    SYS_brk,          SYS_futex,           SYS_sched_yield,  SYS_getrandom,  SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit,         SYS_exit_group,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_time
    SYS_time,
#endif
#ifdef PEN_SANITIZED
    SYS_sigaltstack,  SYS_pipe2,  // used by some C library functions before their real work
#ifdef SYS_pipe
    SYS_pipe,
#endif
#endif
};

/// A system call filter, built rule by rule. If a rule does not decide, the next one is tried.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    skip_if(BPF_JEQ, kProcessor, 1);
    end(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }
  void allow(long call) {
    skip_unless(BPF_JEQ, static_cast<std::uint32_t>(call), 1);
    end(SECCOMP_RET_ALLOW);
  }
  /// A condition on an argument. Only its low 32 bits are compared, as these calls use no more.
  struct Condition {
    unsigned argument;
    std::uint16_t test;  // BPF_JEQ, BPF_JGE, BPF_JSET
    std::uint32_t value;
    bool holds = true;  // the required result of the test
  };
  void allow(long call, const std::vector<Condition>& conditions) {
    const auto length = static_cast<std::uint8_t>(3 * conditions.size() + 1);
    skip_unless(BPF_JEQ, static_cast<std::uint32_t>(call), length);
    for (const auto& each : conditions) {
      constexpr std::size_t kLow = std::endian::native == std::endian::little ? 0 : 4;
      load(offsetof(seccomp_data, args) + each.argument * sizeof(std::uint64_t) + kLow);
      each.holds ? skip_if(each.test, each.value, 1) : skip_unless(each.test, each.value, 1);
      end(kRefuse);
    }
    end(SECCOMP_RET_ALLOW);
  }
  Result<void> install() {
    end(kRefuse);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return fail_errno("system call filter");
    return {};
  }

 private:
  static constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  void add(unsigned code, std::uint8_t yes, std::uint8_t no, std::uint32_t value) {
    code_.push_back({static_cast<std::uint16_t>(code), yes, no, value});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)); }
  void skip_if(unsigned test, std::uint32_t value, std::uint8_t count) { add(BPF_JMP | test | BPF_K, count, 0, value); }
  void skip_unless(unsigned test, std::uint32_t value, std::uint8_t count) {
    add(BPF_JMP | test | BPF_K, 0, count, value);
  }
  void end(std::uint32_t with) { add(BPF_RET | BPF_K, 0, 0, with); }
  std::vector<sock_filter> code_;
};

Result<void> filter_calls(const Round& round) {
  Filter filter;
  for (const long call : kCalls) filter.allow(call);
  // The effective one alone.
  std::vector<Filter::Condition> uids = {{0, BPF_JEQ, kUnchanged}, {2, BPF_JEQ, kUnchanged}}, gids = uids;
  uids.push_back({1, BPF_JGE, std::max<std::uint32_t>(round.lowest, 1)});
  gids.push_back({1, BPF_JGE, 1});
  for (const uid_t kept : round.kept_uids) uids.push_back({1, BPF_JEQ, kept, false});
  for (const gid_t kept : round.kept_gids) gids.push_back({1, BPF_JEQ, kept, false});
  filter.allow(SYS_setresuid, uids);
  filter.allow(SYS_setresgid, gids);
  filter.allow(SYS_fcntl, {{1, BPF_JEQ, F_OFD_SETLK}});
  filter.allow(SYS_mmap, {{2, BPF_JSET, PROT_EXEC, false}});
  filter.allow(SYS_mprotect, {{2, BPF_JSET, PROT_EXEC, false}});
  return filter.install();
}

Result<void> keep_two_capabilities() {
  // After this, a uid changes no capability set, and root's uid is like any other.
  constexpr unsigned long kPlain = SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NOROOT |
                                   SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                                   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, kPlain) != 0) return fail_errno("securebits");
  for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
    if (capability != CAP_SETUID && capability != CAP_SETGID && ::prctl(PR_CAPBSET_DROP, capability) != 0)
      return fail_errno("capability bounding set");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct data[2] = {{kKept, kKept, 0}, {0, 0, 0}};
  if (::syscall(SYS_capset, &header, data) != 0) return fail_errno("capabilities");
  return {};
}

/// Without Landlock, or with its first version, which cannot move files between directories, only the other bounds
/// apply.
Result<void> only_files_below(const std::string& base) {
  constexpr long kMoves = 2;
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < kMoves) return {};
  const Fd directory(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  // Root may be denied access there (NFS): the delivering account's tries will show.
  if (!directory) return {};
  // All rights of this version are restricted; those that a mailbox needs are granted.
  landlock_ruleset_attr all{};
  all.handled_access_fs = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
  const Fd rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0)));
  if (!rules) return fail_errno("rules of files");
  landlock_path_beneath_attr below{};
  below.parent_fd = directory.get();
  below.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                         LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                         LANDLOCK_ACCESS_FS_REFER;
  if (::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &below, 0) != 0)
    return fail_errno("rule of files below " + base);
  if (::syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0) return fail_errno("files below " + base);
  return {};
}

}  // namespace

bool can_confine() { return kProcessor != 0; }

Result<void> confine(const Round& round) {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return fail_errno("core files");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return fail_errno("core files");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("no new rights");
  if (::setgroups(0, nullptr) != 0) return fail_errno("setgroups");
  PEN_TRY(only_files_below(round.base));
  PEN_TRY(keep_two_capabilities());
  act_as({kNobody, kNobody, {}});
  return filter_calls(round);
}

bool is_within(const Round& round, const Identity& who) {
  return who.uid >= round.lowest && who.uid != 0 && who.gid != 0 && who.groups.empty() &&
         std::ranges::find(round.kept_uids, who.uid) == round.kept_uids.end() &&
         std::ranges::find(round.kept_gids, who.gid) == round.kept_gids.end();
}

void act_as(const Identity& who) {
  if (::setresgid(kUnchanged, who.gid, kUnchanged) != 0 || ::setresuid(kUnchanged, who.uid, kUnchanged) != 0 ||
      ::getegid() != who.gid || ::geteuid() != who.uid)
    ::_exit(77);
}

}  // namespace pen::mailbox
