#include "lib/service/as_account.h"

#include <grp.h>
#include <pwd.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

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
#ifdef PEN_SANITIZED  // who looks for leaks at the end of the process looks in from beside, which needs its real rights
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

}  // namespace pen::service
