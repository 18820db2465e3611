#include "lib/send/mailbox/become.h"

#include <grp.h>
#include <unistd.h>

#include <cerrno>

namespace pen::mailbox {

Result<void> become(const Identity& who) {
  if (who.uid == 0) return fail_errno("refusing to deliver as root", EPERM);
  if (::setgroups(who.groups.size(), who.groups.data()) != 0) return fail_errno("setgroups");
  if (::setresgid(who.gid, who.gid, who.gid) != 0) return fail_errno("setgid");
  if (::setresuid(who.uid, who.uid, who.uid) != 0) return fail_errno("setuid");
  if (::setuid(0) == 0) return fail_errno("privileges could not be dropped", EPERM);
  return {};
}

}  // namespace pen::mailbox
