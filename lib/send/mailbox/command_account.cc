#include "lib/send/mailbox/command_account.h"

#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include "lib/config/problem.h"
#include "lib/send/mailbox/accounts.h"

namespace pen::mailbox {

Result<Identity> command_account(const std::string& user, const std::string& group, const MailAccounts& kept,
                                 const std::string& service) {
  const auto wrong = [&](const std::string& why) {
    return fail(config::ConfigError::bad_value, fmt::format("master.cf: {}: user={}", service, why));
  };
  PEN_TRY_ASSIGN(const auto account, find_account(user));
  if (!account) return wrong(user + ": there is no such user");
  Identity who = account->identity;
  if (!group.empty()) {
    const ::group* entry = ::getgrnam(group.c_str());
    if (entry == nullptr) return wrong(": there is no group " + group);
    who.gid = entry->gr_gid;
  }
  who.groups = {who.gid};
  if (who.uid == 0 || who.gid == 0) return wrong(user + ": a command never runs as root");
  for (const MailAccount& account_of_mail : kept)
    if (::geteuid() == 0 && (who.uid == account_of_mail.uid || who.gid == account_of_mail.gid))
      return wrong(user + ": a command does not get the rights of " + account_of_mail.setting);
  return who;
}

}  // namespace pen::mailbox
