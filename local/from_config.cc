#include "local/from_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/delimiters.h"
#include "lib/send/mailbox/environment.h"
#include "lib/send/mailbox/limits.h"
#include "lib/send/mailbox/start_directory.h"

namespace pen::local {
namespace {

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Reads allow_mail_to_commands and the like; the error names the invalid word.
Result<Places> places(const std::vector<std::string>& words, std::string_view setting) {
  for (const auto& word : words)
    if (word != "alias" && word != "forward" && word != "include")
      return fail(config::ConfigError::bad_value,
                  fmt::format("{}: \"{}\" is none of alias, forward, include", setting, printable(word, 40)));
  return Places{has(words, "alias"), has(words, "forward"), has(words, "include")};
}

Result<void> read_expansion(const config::Settings& s, ExpandRules& rules) {
  PEN_TRY_ASSIGN(rules.commands, places(s.allow_mail_to_commands, "allow_mail_to_commands"));
  PEN_TRY_ASSIGN(rules.files, places(s.allow_mail_to_files, "allow_mail_to_files"));
  const auto& onto = s.propagate_unmatched_extensions;
  rules.propagate = {has(onto, "alias"), has(onto, "forward"), has(onto, "include")};
  rules.expand_owner = s.expand_owner_alias;
  rules.reset_owner = s.reset_owner_alias;
  rules.owner_special = s.owner_request_special;
  rules.limit = static_cast<std::size_t>(s.alias_destination_limit);
  return {};
}

void read_commands(const config::Settings& s, Rules& rules) {
  rules.mailbox_command = s.mailbox_command;
  rules.default_privs = s.default_privs;
  rules.command_filter = s.command_expansion_filter;
  rules.shell = s.local_command_shell;
  rules.directory = s.command_execution_directory;
  rules.start_directory = mailbox::start_directory(s.queue_directory);
  rules.directory_filter = s.execution_directory_expansion_filter;
  rules.exported = mailbox::exported_environment(s.export_environment);
  rules.time_limit = std::chrono::duration_cast<seconds>(s.command_time_limit);
}

}  // namespace

Result<Rules> rules_from(const config::Settings& s, const map::OpenOptions& tables) {
  Rules rules;
  PEN_TRY(mailbox::check_limit("mailbox_size_limit", static_cast<std::uint64_t>(s.mailbox_size_limit),
                               static_cast<std::uint64_t>(s.message_size_limit)));
  rules.myhostname = s.myhostname;
  rules.myorigin = s.myorigin;
  rules.delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
  PEN_TRY(read_expansion(s, rules.expansion));
  read_commands(s, rules);
  PEN_TRY_ASSIGN(rules.mailbox_commands,
                 map::MapList::open(join(s.mailbox_command_maps), tables.of("mailbox_command_maps")));
  rules.home_mailbox = s.home_mailbox;
  rules.mail_spool_directory = s.mail_spool_directory;
  PEN_TRY_ASSIGN(rules.mailbox_transports,
                 map::MapList::open(join(s.mailbox_transport_maps), tables.of("mailbox_transport_maps")));
  PEN_TRY_ASSIGN(rules.fallback_transports,
                 map::MapList::open(join(s.fallback_transport_maps), tables.of("fallback_transport_maps")));
  rules.mailbox_transport = s.mailbox_transport;
  rules.fallback_transport = s.fallback_transport;
  rules.luser_relay = s.luser_relay;
  for (const auto path : split(s.forward_path)) rules.forward_paths.emplace_back(path);
  rules.forward_filter = s.forward_expansion_filter;
  rules.strict_ownership = s.strict_mailbox_ownership;
  rules.require_home = s.require_home_directory;
  rules.mailbox_size_limit = static_cast<std::uint64_t>(s.mailbox_size_limit);
  PEN_TRY_ASSIGN(rules.lock, mailbox::parse_lock_rules(join(s.mailbox_delivery_lock)));
  rules.lock.attempts = static_cast<unsigned>(s.deliver_lock_attempts);
  rules.lock.delay = std::chrono::duration_cast<seconds>(s.deliver_lock_delay);
  rules.lock.stale = std::chrono::duration_cast<seconds>(s.stale_lock_time);
  rules.mark_files = has(s.prepend_delivered_header, "file");
  rules.mark_forwards = has(s.prepend_delivered_header, "forward");
  rules.mark_commands = has(s.prepend_delivered_header, "command");
  return rules;
}

}  // namespace pen::local
