#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

#include <sched.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/suite/confine/apply.h"
#include "lib/suite/confine/parts.h"
#include "lib/suite/confine/system_calls.h"

namespace pen::confine {
namespace {

// Numbers beyond it are of calls that no list has.
constexpr std::size_t kNumbers = 1024;
constexpr std::size_t kNameSize = 32;

/// For the signal handler, which may neither allocate nor lock. Filled before the filter is in force.
struct Known {
  int report = -1;
  std::array<std::array<char, kNameSize>, kNumbers> names{};  // "": the library does not know it
  std::array<bool, kNumbers> fatal{}, tried{};
  std::array<std::atomic<bool>, kNumbers> told{};
};
Known& known() {
  static auto* only = new Known;
  return *only;
}

void resolve(std::string_view name, std::array<bool, kNumbers>& flags) {
  const int number = ::seccomp_syscall_resolve_name(std::string(name).c_str());
  if (number >= 0 && static_cast<std::size_t>(number) < kNumbers) flags[static_cast<std::size_t>(number)] = true;
}

void prepare_handler(int report) {
  Known& k = known();
  k.report = report;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const std::unique_ptr<char, decltype(&std::free)> name(
        ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(i)), &std::free);
    if (name) std::strncpy(k.names[i].data(), name.get(), kNameSize - 1);
  }
  for (const auto& name : kFatalCalls) resolve(name, k.fatal);
  for (const auto& name : kTriedCalls) resolve(name, k.tried);
}

std::size_t append(char* to, std::size_t at, std::size_t size, const char* text) {
  while (*text != '\0' && at + 1 < size) to[at++] = *text++;
  return at;
}

void tell(std::size_t number, bool ends) {
  const Known& k = known();
  std::array<char, 128> text{};
  std::size_t at = append(text.data(), 0, text.size(), kViolation.data());
  const char* name = number < kNumbers ? k.names[number].data() : "";
  at = append(text.data(), at, text.size(), *name == '\0' ? "unknown" : name);
  at = append(text.data(), at, text.size(), " (");
  std::array<char, 24> digits{};
  std::size_t first = digits.size() - 1;
  std::size_t rest = number;
  do {
    digits[--first] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  at = append(text.data(), at, text.size(), &digits[first]);
  at = append(text.data(), at, text.size(), ")");
  if (ends) at = append(text.data(), at, text.size(), kEnds.data());
  // A refusal is not undone because nobody hears of it.
  (void)::send(k.report, text.data(), at, MSG_NOSIGNAL | (ends ? 0 : MSG_DONTWAIT));
}

void set_result(ucontext_t* context, int error) {
#if defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RAX] = -error;
#elif defined(__aarch64__)
  context->uc_mcontext.regs[0] = static_cast<unsigned long long>(-static_cast<long long>(error));
#elif defined(__riscv)
  context->uc_mcontext.__gregs[REG_A0] = static_cast<unsigned long>(-static_cast<long>(error));
#else
  (void)context;
  (void)error;
  ::_exit(EX_NOPERM);
#endif
}

void on_refused(int, siginfo_t* info, void* context) {
  const int saved = errno;
  Known& k = known();
  const auto number = static_cast<std::size_t>(info->si_syscall);
  const bool in_table = number < kNumbers;
  const bool fatal = in_table && k.fatal[number];
  if (fatal || !in_table || !k.told[number].exchange(true)) tell(number, fatal);
  if (fatal) ::_exit(EX_NOPERM);
  const bool newer = !in_table || k.names[number][0] == '\0' || k.tried[number];
  set_result(static_cast<ucontext_t*>(context), newer ? ENOSYS : EPERM);
  errno = saved;
}

class Filter {
 public:
  Filter() : context_(::seccomp_init(SCMP_ACT_TRAP), &::seccomp_release) {}

  void allow(std::string_view name) { rule(SCMP_ACT_ALLOW, name, {}); }
  void allow(std::string_view name, std::initializer_list<scmp_arg_cmp> conditions) {
    rule(SCMP_ACT_ALLOW, name, conditions);
  }
  /// Fails without a word: what libraries try first on every kernel.
  void refuse_quietly(std::string_view name, int error) {
    rule(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), name, {});
  }
  void refuse_quietly(std::string_view name, int error, std::initializer_list<scmp_arg_cmp> conditions) {
    rule(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), name, conditions);
  }
  Result<void> load() {
    if (!context_) return fail_errno("system call filter", ENOMEM);
    if (error_ != 0) return fail_errno("system call filter: " + wrong_, -error_);
    // Every thread, whenever it was started.
    if (const int r = ::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1); r < 0)
      return fail_errno("system call filter of all threads", -r);
    // A tree, not a list: what the last rule permits costs little more than what the first one does.
    (void)::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    // The program that wants the filter sets no_new_privs.
    (void)::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_NNP, 0);
    if (const int r = ::seccomp_load(context_.get()); r < 0) return fail_errno("system call filter", -r);
    return {};
  }

 private:
  void rule(std::uint32_t action, std::string_view name, std::initializer_list<scmp_arg_cmp> conditions) {
    if (!context_ || error_ != 0) return;
    const int number = ::seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number < 0) return;  // another processor's
    const int r = ::seccomp_rule_add_array(context_.get(), action, number, static_cast<unsigned>(conditions.size()),
                                           conditions.begin());
    if (r == 0 || r == -EEXIST) return;
    error_ = r;
    wrong_ = name;
  }
  std::unique_ptr<void, decltype(&::seccomp_release)> context_;
  int error_ = 0;
  std::string wrong_;
};

constexpr scmp_arg_cmp equal(unsigned argument, std::uint64_t value) {
  return {.arg = argument, .op = SCMP_CMP_EQ, .datum_a = value, .datum_b = 0};
}
constexpr scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {.arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}
// Arguments that are ints: what stands in the upper half is nobody's.
constexpr scmp_arg_cmp equal_int(unsigned argument, std::uint32_t value) {
  return masked(argument, 0xffffffffU, value);
}

void add_sockets(const Plan& plan, Filter& filter) {
  filter.allow("socket", {equal_int(0, AF_UNIX)});
  // Which addresses this host has: getifaddrs(), getaddrinfo().
  filter.allow("socket", {equal_int(0, AF_NETLINK), equal_int(2, NETLINK_ROUTE)});
  // With MSG_FASTOPEN a message connects, and the rules of ports see nothing of it.
  filter.allow("sendto", {masked(3, MSG_FASTOPEN, 0)});
  filter.allow("send", {masked(3, MSG_FASTOPEN, 0)});
  filter.allow("sendmsg", {masked(2, MSG_FASTOPEN, 0)});
  filter.allow("sendmmsg", {masked(3, MSG_FASTOPEN, 0)});
  for (const std::uint32_t family : {std::uint32_t{AF_INET}, std::uint32_t{AF_INET6}}) {
    for (const std::uint32_t protocol : {0U, std::uint32_t{IPPROTO_TCP}, std::uint32_t{IPPROTO_UDP}}) {
      if (plan.internet) filter.allow("socket", {equal_int(0, family), equal_int(2, protocol)});
    }
  }
}

// The bit of O_TMPFILE that O_DIRECTORY has not.
constexpr std::uint64_t kNameless = O_TMPFILE & ~O_DIRECTORY;
// No program makes a file that gives its owner's rights to its user, or one that everybody may change: other users of
// this host could run what was put there.
constexpr std::uint64_t kSetId = 07000, kOpenToAll = kSetId | 022;

/// flags: the number of the call's argument with O_CREAT and the like; the mode follows it.
void add_open(std::string_view name, unsigned flags, Filter& filter) {
  filter.allow(name, {masked(flags, O_CREAT | O_TRUNC | kNameless, 0)});
  filter.allow(name, {masked(flags, O_TRUNC, 0), masked(flags + 1, kOpenToAll, 0)});
  // To empty a file takes the right to write it. Opened for reading alone it takes none from the rules of older
  // kernels.
  for (const std::uint64_t access : {std::uint64_t{O_WRONLY}, std::uint64_t{O_RDWR}})
    filter.allow(name, {masked(flags, O_ACCMODE | O_TRUNC, access | O_TRUNC), masked(flags + 1, kOpenToAll, 0)});
}

void add_files(const Plan& plan, Filter& filter) {
  if (plan.writes) {
    for (const auto& name : kWritingCalls) filter.allow(name);
    filter.allow("mkdir", {masked(1, kSetId, 0)});
    filter.allow("mkdirat", {masked(2, kSetId, 0)});
    if (plan.cuts)
      for (const auto* name : {"ftruncate", "ftruncate64"}) filter.allow(name);
    // Reserves, and clears what a file of the spool held; makes no holes.
    if (plan.reserves)
      for (const int how : {0, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE})
        filter.allow("fallocate", {equal_int(1, static_cast<std::uint32_t>(how))});
    if (plan.sets_modes) filter.allow("fchmod", {masked(1, kOpenToAll, 0)});
    add_open("open", 1, filter);
    add_open("openat", 2, filter);
    return;
  }
  constexpr std::uint64_t kChanging = O_ACCMODE | O_CREAT | O_TRUNC | kNameless;
  filter.allow("open", {masked(1, kChanging, O_RDONLY)});
  filter.allow("openat", {masked(2, kChanging, O_RDONLY)});
}

/// What was written in memory is not run. Libraries are mapped from their files, also later: modules of tables and of
/// the name service are loaded when they are first asked.
void add_memory(const Plan& plan, Filter& filter) {
  for (const auto* name : {"mmap", "mmap2", "mprotect"}) {
    if (plan.machine_code)
      filter.allow(name);
    else
      filter.allow(name, {masked(2, PROT_EXEC, 0)});
  }
  if (plan.machine_code) return;
  for (const auto* name : {"mmap", "mmap2"})
    filter.allow(name, {masked(2, PROT_EXEC | PROT_WRITE, PROT_EXEC), masked(3, MAP_ANONYMOUS, 0)});
}

void add_control(const Plan& plan, Filter& filter) {
  // Of what fcntl() does: nothing that sends a signal to others (F_SETOWN, F_SETSIG, F_NOTIFY).
  std::vector<int> commands{F_DUPFD,      F_DUPFD_CLOEXEC, F_GETFD,      F_SETFD,     F_GETFL,
                            F_GETLK,      F_SETLK,         F_SETLKW,     F_OFD_GETLK, F_OFD_SETLK,
                            F_OFD_SETLKW, F_GETPIPE_SZ,    F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS};
  // A lease holds up every program that opens the file: only for files that one program has for itself.
  if (plan.leases) commands.insert(commands.end(), {F_SETLEASE, F_GETLEASE});
  for (const auto* name : {"fcntl", "fcntl64"}) {
    for (const int command : commands) filter.allow(name, {equal_int(1, static_cast<std::uint32_t>(command))});
    filter.allow(name, {equal_int(1, F_SETFL), masked(2, O_ASYNC, 0)});
  }
}

void add_own(Filter& filter) {
  // Threads, and nothing else that clone() makes. clone3() has its flags in memory, where a filter cannot see them: the
  // C library then takes clone().
  filter.allow("clone", {masked(0, CLONE_THREAD, CLONE_THREAD)});
  filter.refuse_quietly("clone3", ENOSYS);
  // abort() signals this process.
  const auto self = static_cast<std::uint32_t>(::getpid());
  filter.allow("tgkill", {equal_int(0, self)});
  filter.allow("kill", {equal_int(0, self)});
  // Of every signal but SIGSYS, by which refusals are reported: a number that differs from it in a bit is another
  // one. What stands above the bits that signals have is no signal's.
  for (unsigned i = 0; i < 7; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    filter.allow("rt_sigaction", {masked(0, bit, ~std::uint64_t{SIGSYS} & bit)});
  }
  // Limits are asked for, not set.
  filter.allow("prlimit64", {equal(2, 0)});
  for (const int option :
       {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_CAPBSET_READ})
    filter.allow("prctl", {equal_int(0, static_cast<std::uint32_t>(option))});
  // To outlive master, on its word.
  filter.allow("prctl", {equal_int(0, PR_SET_PDEATHSIG), equal(1, 0)});
  constexpr std::uint32_t kNameMemory = 0x53564d41;  // PR_SET_VMA of newer C libraries
  filter.refuse_quietly("prctl", EINVAL, {equal_int(0, kNameMemory)});
  for (const int request : {FIONBIO, FIONREAD, FIOCLEX, FIONCLEX, SIOCGIFINDEX, SIOCGIFNAME, SIOCGIFFLAGS})
    filter.allow("ioctl", {equal_int(1, static_cast<std::uint32_t>(request))});
  filter.refuse_quietly("ioctl", ENOTTY, {equal_int(1, TCGETS)});  // is it a terminal? It is not.
}

}  // namespace

Result<bool> restrict_calls(const Plan& plan, int report) {
  if (!kernel_offers().filters) return false;
  prepare_handler(report);
  struct sigaction action{};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return fail_errno("signal of refused system calls");
  Filter filter;
  for (const auto& name : kBaseCalls) filter.allow(name);
  add_files(plan, filter);
  add_sockets(plan, filter);
  add_memory(plan, filter);
  add_control(plan, filter);
  add_own(filter);
  for (const std::string& name : plan.more_calls) filter.allow(name);
  PEN_TRY(filter.load());
  return true;
}

}  // namespace pen::confine
