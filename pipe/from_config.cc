#include "pipe/from_config.h"

#include <fmt/format.h>
#include <paths.h>
#include <unistd.h>

#include "lib/config/values.h"
#include "lib/mail/delimiters.h"
#include "lib/send/mailbox/command_account.h"
#include "lib/send/mailbox/environment.h"
#include "lib/send/mailbox/start_directory.h"

namespace pen::pipes {
namespace {

auto wrong(std::string_view service, const std::string& why) {
  return fail(config::ConfigError::bad_value, fmt::format("master.cf: {}: {}", service, why));
}

}  // namespace

Result<Rules> rules_from(const config::Config& config, const std::string& service,
                         const std::vector<std::string>& words, const mailbox::MailAccounts& kept) {
  const config::Settings& s = config.settings();
  Rules rules;
  auto options = parse_options(words);
  if (!options) return wrong(service, options.error());
  rules.options = *std::move(options);
  if (rules.options.directory.empty())
    rules.options.directory = rules.options.root.empty() ? mailbox::start_directory(s.queue_directory) : "/";
  if (!rules.options.root.empty() && ::geteuid() != 0)
    return wrong(service, "chroot= needs a mail system that root has started");
  PEN_TRY_ASSIGN(rules.identity, mailbox::command_account(rules.options.user, rules.options.group, kept, service));
  rules.service = service;
  rules.delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
  rules.environment = mailbox::exported_environment(s.export_environment);
  rules.environment.emplace_back("PATH=" _PATH_DEFPATH);
  rules.allow_minus = s.allow_min_user;
  const auto limit = config.lookup_transport(service, "time_limit");
  const auto time = config::parse_time(limit.value_or("1000s"), 's');
  if (!time || *time < seconds(1)) return wrong(service, service + "_time_limit is no time above zero");
  rules.time_limit = std::chrono::duration_cast<seconds>(*time);
  return rules;
}

}  // namespace pen::pipes
