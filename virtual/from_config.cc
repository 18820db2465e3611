#include "virtual/from_config.h"

#include "lib/base/text.h"
#include "lib/mail/delimiters.h"
#include "lib/send/mailbox/limits.h"

namespace pen::virtuals {

Result<Rules> rules_from(const config::Settings& s) {
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  // Every value here is a path or an identity, and the keys are strangers': none may choose for itself.
  options.substitute = false;
  options.served = false;
  Rules rules;
  rules.myhostname = s.myhostname;
  rules.delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
  rules.base = s.virtual_mailbox_base;
  PEN_TRY_ASSIGN(rules.mailboxes, map::MapList::open(join(s.virtual_mailbox_maps), options.of("virtual_mailbox_maps")));
  PEN_TRY_ASSIGN(rules.uids, map::MapList::open(join(s.virtual_uid_maps), options.of("virtual_uid_maps")));
  PEN_TRY_ASSIGN(rules.gids, map::MapList::open(join(s.virtual_gid_maps), options.of("virtual_gid_maps")));
  rules.minimum_uid = static_cast<unsigned>(s.virtual_minimum_uid);
  rules.mailbox_limit = static_cast<std::uint64_t>(s.virtual_mailbox_limit);
  PEN_TRY(mailbox::check_limit("virtual_mailbox_limit", rules.mailbox_limit,
                               static_cast<std::uint64_t>(s.message_size_limit)));
  PEN_TRY_ASSIGN(rules.lock, mailbox::parse_lock_rules(join(s.virtual_mailbox_lock), "virtual_mailbox_lock"));
  rules.lock.attempts = static_cast<unsigned>(s.deliver_lock_attempts);
  rules.lock.delay = std::chrono::duration_cast<seconds>(s.deliver_lock_delay);
  rules.lock.stale = std::chrono::duration_cast<seconds>(s.stale_lock_time);
  rules.strict_ownership = s.strict_mailbox_ownership;
  rules.time_limit = std::chrono::duration_cast<seconds>(s.command_time_limit);
  return rules;
}

}  // namespace pen::virtuals
