#pragma once
/// What the process that stays root (helper.h) may do for a program, and what the processes that it makes may do.
/// Made from main.cf and master.cf before the program drops root's rights, and never changed.
///
/// Use:     if (const auto no = refusal(policy, request)) …  else  const auto who = account_of(policy, request);
///          in a worker, as the recipient:  if (const auto no = objection(policy, work)) …
/// Rules:   never root's uid or gid; never an account of the mail system; for mailboxes no uid below `lowest`, no group
///          that opens what is this host's (keep_wide_groups()), and no file outside `base`; for a service of pipe or
///          spawn its one account and its one command; for users what the user database says of a name, groups included
///          but root's and the mail system's. Every service may ask for tables: no policy lists them (OpenTable in
///          worker.h).
/// Pure, but account_of(), which may ask the name service and block.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/send/mailbox/request.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

struct Policy {
  enum class Service : std::uint8_t {
    own,          // an ordinary user's instance: no account changes
    mailboxes,    // virtual
    command,      // pipe
    users,        // local
    connections,  // spawn
    any,          // of a program that is root itself, as tests are: any account but root
    tables,       // of all others: no account changes, tables are opened
  };
  Service service = Service::any;
  std::string name;                // of the service, for the log
  std::vector<uid_t> kept_uids;    // accounts of the mail system
  std::vector<gid_t> kept_gids;    // and their groups; for mailboxes also those that open what is this host's
  bool fewer_capabilities = true;  // confine_privileges

  Round round;  // mailboxes: virtual_mailbox_base and virtual_minimum_uid

  // command and connections
  Identity account;
  std::string root, directory;
  std::vector<std::string> argv;  // as in master.cf
  std::vector<std::string> environment;
  bool may_begin_with_minus = false;  // allow_min_user

  // connections, also in an ordinary user's instance; elsewhere 0
  std::uint64_t at_once = 0;  // commands
  seconds limit{0};           // of each

  std::optional<gid_t> spool_group;  // users: of mail_spool_directory, for mailboxes there

  // Where a refusal is logged.
  std::string log_path, log_tag, log_host;  // log_path empty: syslog
  int log_facility = 0;
  PEN_FIELDS(service, name, kept_uids, kept_gids, fewer_capabilities, round, account, root, directory, argv,
             environment, may_begin_with_minus, at_once, limit, spool_group, log_path, log_tag, log_host, log_facility)
};

/// Whether a program may send a policy of this kind.
bool may_send(std::string_view program, Policy::Service service);

/// Why the request is not granted, as a sentence for the log; nullopt: it may be.
std::optional<std::string> refusal(const Policy& policy, const Request& request);

/// The account whose rights a granted request gives; nullopt: the process's own (Service::own). For users
/// the name service is asked, as root. Errors: its own; EPERM with the reason: the account cannot be used.
Result<std::optional<Identity>> account_of(const Policy& policy, const Request& request);

/// Why a worker or postman does not do what it is given, although it could with its account's rights; nullopt: it does.
std::optional<std::string> objection(const Policy& policy, const Work& work);

/// Whether a command's words can come from these words of master.cf: plain ones are equal, one with macros has become
/// one or several that begin and end as written there. What begins with an address does not begin with a minus sign,
/// unless `minus`.
bool fits(const std::vector<std::string>& words, const std::vector<std::string>& written, bool minus);

}  // namespace pen::mailbox
