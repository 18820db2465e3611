#include "lib/suite/service/setup.h"

#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "lib/base/async/socket.h"
#include "lib/base/fd.h"
#include "lib/base/tcp_port.h"
#include "lib/mail/logged.h"
#include "lib/map/socketmap_limits.h"

namespace pen::service {
namespace {

Result<passwd> account_entry(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (!entry) return fail(SetupError::no_account, "mail_owner \"" + name + "\"");
  return *entry;
}

}  // namespace

Result<void> apply_settings(const config::Settings& settings) {
  auto ports = parse_tcp_ports(settings.known_tcp_ports);
  if (!ports)
    return fail(config::ConfigError::bad_value, "known_tcp_ports: \"" + ports.error() + "\" is not name=port");
  know_tcp_ports(*std::move(ports));
  mail::set_log_form({.internal = settings.info_log_address_format == config::AddressFormat::internal,
                      .delay_digits = static_cast<int>(settings.delay_logging_resolution_limit)});
  async::set_tcp_window(static_cast<int>(settings.tcp_windowsize));
  map::limit_socketmaps({.query = static_cast<std::size_t>(settings.socketmap_max_query_size),
                         .reply = static_cast<std::size_t>(settings.socketmap_max_reply_size)});
  return {};
}

Result<Account> mail_owner(const config::Settings& settings) {
  if (::geteuid() != 0) return Account{::geteuid(), ::getegid()};
  PEN_TRY_ASSIGN(const passwd entry, account_entry(settings.mail_owner));
  if (entry.pw_uid == 0) {
    return fail(SetupError::root_account, settings.mail_owner);
  }
  return Account{entry.pw_uid, entry.pw_gid};
}

namespace {

/// nullopt: nothing is set, and there is no account of the default name.
Result<std::optional<passwd>> queue_account(const config::Settings& settings) {
  if (settings.queue_owner.empty()) {
    const passwd* entry = ::getpwnam(kQueueOwner);
    return entry != nullptr ? std::optional(*entry) : std::nullopt;
  }
  const passwd* entry = ::getpwnam(settings.queue_owner.c_str());
  if (entry == nullptr) return fail(SetupError::no_account, "queue_owner \"" + settings.queue_owner + "\"");
  return *entry;
}

}  // namespace

Result<Account> queue_owner(const config::Settings& settings) {
  PEN_TRY_ASSIGN(const Account mail, mail_owner(settings));
  if (::geteuid() != 0) return mail;
  PEN_TRY_ASSIGN(const auto entry, queue_account(settings));
  if (!entry || entry->pw_uid == mail.uid) return mail;
  const std::string name = entry->pw_name;
  if (entry->pw_uid == 0) return fail(SetupError::root_account, name);
  if (entry->pw_gid == mail.gid) return fail(SetupError::no_own_group, "queue_owner \"" + name + "\"");
  return Account{entry->pw_uid, entry->pw_gid};
}

Result<Owners> wanted_owners(const config::Settings& settings) {
  Owners out;
  PEN_TRY_ASSIGN(out.mail, mail_owner(settings));
  PEN_TRY_ASSIGN(out.queue, queue_owner(settings));
  return out;
}

Result<Owners> owners(const config::Settings& settings) {
  PEN_TRY_ASSIGN(Owners out, wanted_owners(settings));
  struct stat st{};
  if (out.apart() && ::lstat(settings.queue_log_directory.c_str(), &st) == 0 && st.st_uid == out.mail.uid)
    out.queue = out.mail;
  return out;
}

namespace {

/// Groups of this process, in addition to those that it has. name: for errors.
Result<void> add_groups(const std::vector<gid_t>& more, const std::string& name) {
  if (more.empty()) return {};
  const int count = ::getgroups(0, nullptr);
  if (count < 0) return fail_errno("groups of " + name);
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgroups(count, groups.data()) != count) return fail_errno("groups of " + name);
  groups.insert(groups.end(), more.begin(), more.end());
  if (::setgroups(groups.size(), groups.data()) != 0) return fail_errno("groups of " + name);
  return {};
}

}  // namespace

Result<void> drop_privileges(const config::Settings& settings, const Owners& owners, confine::Account account) {
  if (::geteuid() != 0) return {};
  const bool queue = account == confine::Account::queue;
  const Account& who = queue ? owners.queue : owners.mail;
  const bool group_of_queue = queue || account == confine::Account::orders;
  const gid_t gid = group_of_queue ? owners.queue.gid : owners.mail.gid;
  const passwd* entry = ::getpwuid(who.uid);
  const std::string name = entry != nullptr ? entry->pw_name : std::to_string(who.uid);
  if (::initgroups(name.c_str(), owners.mail.gid) != 0) return fail_errno("initgroups " + name);
  std::vector<gid_t> more;
  const auto join_group = [&more](const char* group_name) {
    if (const group* entry_of_group = ::getgrnam(group_name)) more.push_back(entry_of_group->gr_gid);
  };
  if (owners.apart() && !queue) join_group(settings.setgid_group.c_str());
  if (account == confine::Account::logins) join_group(confine::kLoginsGroup);
  PEN_TRY(add_groups(more, name));
  if (::setgid(gid) != 0) return fail_errno("setgid for " + name);
  if (::setuid(who.uid) != 0) return fail_errno("setuid for " + name);
  return {};
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace pen::service
