#include "lib/send/mailbox/start_helper.h"

#include <grp.h>
#include <unistd.h>

#include <array>

#include "lib/send/mailbox/nursery.h"

namespace pen::mailbox {
namespace {

// Devices, passwords, logs, terminals, and what makes its members root.
constexpr std::array kWideGroups = {
    "root", "wheel", "sudo", "admin",  "adm", "disk",  "shadow",      "kmem",
    "mem",  "tty",   "utmp", "docker", "lxd", "incus", "incus-admin", "systemd-journal"};

}  // namespace

MailAccounts mail_accounts(const config::Settings& settings, const service::Owners& owners) {
  MailAccounts out = {{"mail_owner", owners.mail.uid, owners.mail.gid},
                      {"queue_owner", owners.queue.uid, owners.queue.gid}};
  if (const group* drop = ::getgrnam(settings.setgid_group.c_str()))
    out.push_back({"setgid_group", kNoAccount, drop->gr_gid});
  return out;
}

void keep_mail_accounts(const config::Settings& settings, const service::Owners& owners, std::vector<uid_t>& uids,
                        std::vector<gid_t>& gids) {
  for (const MailAccount& account : mail_accounts(settings, owners)) {
    if (account.uid != kNoAccount) uids.push_back(account.uid);
    gids.push_back(account.gid);
  }
}

void keep_wide_groups(std::vector<gid_t>& gids) {
  for (const char* name : kWideGroups)
    if (const group* found = ::getgrnam(name)) gids.push_back(found->gr_gid);
}

Result<void> complete(Policy& policy, const config::Config& config, const service::Arguments& arguments,
                      const service::Owners& owners) {
  const config::Settings& settings = config.settings();
  policy.name = arguments.service;
  policy.fewer_capabilities = settings.confine_privileges;
  keep_mail_accounts(settings, owners, policy.kept_uids, policy.kept_gids);
  PEN_TRY_ASSIGN(const log::Options log, service::log_options(settings, arguments.service, arguments.debug));
  policy.log_path = log.path;
  policy.log_tag = log.tag;
  policy.log_host = log.hostname;
  policy.log_facility = log.syslog_facility;
  return {};
}

Result<void> start_helper(Policy policy, const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper) {
  PEN_TRY(complete(policy, config, arguments, owners));
  if (::geteuid() != 0) policy.service = Policy::Service::own;
  return Nursery::instance().start(policy, helper);
}

}  // namespace pen::mailbox
