#include "lib/suite/service/as_account.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/forked_signals.h"

namespace pen::service {

AsAccount::AsAccount(const Account& account, std::span<const gid_t> more) {
  if (::geteuid() != 0 || account.uid == 0) return;
  ok_ = false;
  const int count = ::getgroups(0, nullptr);
  if (count < 0) return;
  groups_.resize(static_cast<std::size_t>(count));
  group_ = ::getegid();
  if (::getgroups(count, groups_.data()) != count) return;
  changed_ = true;
  const passwd* entry = ::getpwuid(account.uid);
  const int grouped = entry ? ::initgroups(entry->pw_name, account.gid) : ::setgroups(0, nullptr);
  const bool added = grouped == 0 && add(more);
  ok_ = added && ::setegid(account.gid) == 0 && ::seteuid(account.uid) == 0;
#ifdef PEN_SANITIZED  // the leak checker looks at the process from another at its end, which needs the real rights
  static const int at_exit = std::atexit([] { (void)::seteuid(0); });
  (void)at_exit;
#endif
  if (ok_) return;
  const int why = errno;
  come_back();
  errno = why;
}

bool AsAccount::add(std::span<const gid_t> more) {
  if (more.empty()) return true;
  const int count = ::getgroups(0, nullptr);
  if (count < 0) return false;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgroups(count, groups.data()) != count) return false;
  groups.insert(groups.end(), more.begin(), more.end());
  return ::setgroups(groups.size(), groups.data()) == 0;
}

AsAccount::~AsAccount() { come_back(); }

void AsAccount::come_back() {
  if (!changed_) return;
  changed_ = false;
  const int why = errno;
  const bool back = ::seteuid(0) == 0 && ::setegid(group_) == 0 && ::setgroups(groups_.size(), groups_.data()) == 0;
  if (!back) ::_exit(EX_OSERR);
  errno = why;
}

namespace {

/// false: errno says why.
bool become_for_good(const Account& account) {
  const passwd* entry = ::getpwuid(account.uid);
  const int grouped = entry ? ::initgroups(entry->pw_name, account.gid) : ::setgroups(0, nullptr);
  return grouped == 0 && ::setresgid(account.gid, account.gid, account.gid) == 0 &&
         ::setresuid(account.uid, account.uid, account.uid) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

void write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the parent takes what it has
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<void> in_account(const Account& account, const std::function<Result<void>()>& work) {
  if (::geteuid() != 0 || account.uid == 0) return work();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
  Fd from(ends[0]), to(ends[1]);
  pid_t child = -1;
  {
    const HeldSignals held;
    child = ::fork();
    if (child == 0) {
      handle_signals_as_new_process();
      from.reset();
      int why = 0;
      std::string said;
      if (!become_for_good(account)) {
        why = EPERM;
        said = "become another account";
      } else if (auto done = work(); !done) {
        why = done.error().sys_errno() != 0 ? done.error().sys_errno() : EIO;
        said = done.error().context().empty() ? done.error().message() : done.error().context();
      }
      if (why != 0) {
        write_whole(to.get(), {reinterpret_cast<const char*>(&why), sizeof why});
        write_whole(to.get(), said);
      }
      ::_exit(why == 0 ? EX_OK : EX_SOFTWARE);
    }
  }
  if (child < 0) return fail_errno("fork");
  to.reset();
  std::string answer;
  for (char piece[512];;) {
    const ssize_t n = ::read(from.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    answer.append(piece, static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail_errno("wait for a process");
  if (WIFEXITED(status) && WEXITSTATUS(status) == EX_OK && answer.empty()) return {};
  int why = ECHILD;
  if (answer.size() < sizeof why) return fail_errno("a process of another account was killed", ECHILD);
  std::memcpy(&why, answer.data(), sizeof why);
  return fail_errno(answer.substr(sizeof why), why);
}

}  // namespace pen::service
