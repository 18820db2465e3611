#pragma once
/// Makes a delivery program's policy known to the helper (helper.h), as service::Options::start_helper.
///
/// Use:     .start_helper = [](const auto& config, const auto& arguments, const auto& owners, int helper) {
///            Policy policy = …;   // the service, and what is the program's own
///            return mailbox::start_helper(std::move(policy), config, arguments, owners, helper);
///          }
/// Adds:    the service's name, the accounts of the mail system, where refusals are logged. In a process that is not
///          root the service is Service::own, whatever was asked for.
/// Errors:  those of Nursery::start().
#include "lib/send/mailbox/command_account.h"
#include "lib/send/mailbox/policy.h"
#include "lib/suite/service/service.h"

namespace pen::mailbox {

/// helper: the program's socket to it.
Result<void> start_helper(Policy policy, const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper);

/// What every policy has: the service's name, the accounts of the mail system, where refusals are logged.
Result<void> complete(Policy& policy, const config::Config& config, const service::Arguments& arguments,
                      const service::Owners& owners);

/// mail_owner, queue_owner, and setgid_group, which is no account: its uid is kNoAccount.
inline constexpr uid_t kNoAccount = static_cast<uid_t>(-1);
MailAccounts mail_accounts(const config::Settings& settings, const service::Owners& owners);
/// The same, by uid and gid.
void keep_mail_accounts(const config::Settings& settings, const service::Owners& owners, std::vector<uid_t>& uids,
                        std::vector<gid_t>& gids);

/// Adds the groups of this host whose members can read or change what is the host's: no mailbox needs them.
void keep_wide_groups(std::vector<gid_t>& gids);

}  // namespace pen::mailbox
