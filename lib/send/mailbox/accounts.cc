#include "lib/send/mailbox/accounts.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>

#include "lib/send/mailbox/nursery.h"

namespace pen::mailbox {

namespace {

/// look: calls getpwnam_r or getpwuid_r for one account, with the given buffer.
template <class Look>
Result<std::optional<Account>> find(const std::string& shown, Look look) {
  std::vector<char> buffer(4096);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = look(entry, buffer, &found)) == ERANGE && buffer.size() < 1024 * 1024)
    buffer.resize(buffer.size() * 2);
  if (found == nullptr) {
    // The C library reports some plain absences by these errors.
    if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM) return std::nullopt;
    return fail_errno("look up user " + shown, error);
  }
  Account account;
  account.name = entry.pw_name;
  account.home = entry.pw_dir;
  account.shell = entry.pw_shell;
  account.identity.uid = entry.pw_uid;
  account.identity.gid = entry.pw_gid;
  account.identity.name = account.name;
  int count = 64;
  for (int round = 0; round < 3; ++round) {
    account.identity.groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(entry.pw_name, entry.pw_gid, account.identity.groups.data(), &count) >= 0) {
      account.identity.groups.resize(static_cast<std::size_t>(count));
      return account;
    }
  }
  return fail_errno("groups of user " + shown, E2BIG);
}

}  // namespace

Result<std::optional<Account>> find_account(const std::string& name) {
  return find(name, [&](passwd& entry, std::vector<char>& buffer, passwd** found) {
    return ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), found);
  });
}

Result<std::optional<Account>> find_account(uid_t uid) {
  return find(fmt::format("with uid {}", uid), [&](passwd& entry, std::vector<char>& buffer, passwd** found) {
    return ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), found);
  });
}

Result<std::optional<Identity>> rights_for(const Identity& who) {
  const uid_t self = ::geteuid();
  if (self == 0 || Nursery::instance().becomes()) return who;
  if (self == who.uid) return std::nullopt;
  return fail_errno(fmt::format("this mail system runs as uid {} and cannot deliver as uid {}", self, who.uid), EPERM);
}

}  // namespace pen::mailbox
