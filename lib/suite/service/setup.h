#pragma once
/// What every program and master itself does at its start: log (log_settings.h), privileges, descriptors.
///
/// Errors:  are returned; the caller says them and ends with the exit code that fits.
/// Thread:  before any other is started.
#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/suite/confine/programs.h"
#include "lib/suite/service/log_settings.h"

namespace pen::service {

enum class SetupError { no_account = 1, root_account, no_own_group };
inline std::string_view error_module(SetupError) { return "setup"; }
inline std::string_view describe(SetupError e) {
  switch (e) {
    case SetupError::no_account:
      return "there is no such account";
    case SetupError::root_account:
      return "root cannot be mail_owner or queue_owner";
    case SetupError::no_own_group:
      return "its group must be another than that of mail_owner";
  }
  return "?";
}

/// Gives the libraries of this process what they do by settings and without one: the form of log lines, the ports that
/// are known by name, the buffers of TCP connections, the bounds of socketmap: tables. Errors: bad_value.
Result<void> apply_settings(const config::Settings& settings);

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};
/// mail_owner when this process is root; the own ids otherwise (there is nothing to change then).
Result<Account> mail_owner(const config::Settings& settings);
/// queue_owner, the account that alone can open queue log, spool and destination database. It is mail_owner where the
/// settings say so and, if they name none, where there is no account kQueueOwner. The own ids in a process that is not
/// root.
inline constexpr const char* kQueueOwner = "penstock-queue";
Result<Account> queue_owner(const config::Settings& settings);

struct Owners {
  Account mail, queue;
  /// The queue has an account of its own.
  bool apart() const { return mail.uid != queue.uid; }
};
/// The accounts that the settings ask for: what master makes of an instance when it starts.
Result<Owners> wanted_owners(const config::Settings& settings);
/// The accounts of an instance as it is: until master has been started anew, a queue may be mail_owner's still.
Result<Owners> owners(const config::Settings& settings);

/// From root to the account for good, with the groups that it needs: its own supplementary ones and, where the queue
/// has an account of its own, setgid_group to reach public/, and for the queue's account the group of mail_owner, to
/// reach private/ and to read tables; for logins the group that saslauthd and sasldb are open to. No effect in a
/// process that is not root.
Result<void> drop_privileges(const config::Settings& settings, const Owners& owners, confine::Account account);

/// As many descriptors as the hard limit lets us have: one per session is not much.
void raise_descriptor_limit();

}  // namespace pen::service
