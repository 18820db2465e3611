#pragma once
/// One message for one command: its arguments, and its input before the content. Pure.
///
/// Safety:  no shell sees the arguments. An address is one argument or a part of one, whatever it contains. An
///          address that begins with - is refused (unless allow_min_user), because a command would take it for an
///          option.
/// Source:  Postfix pipe(8).
#include <optional>
#include <string>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/meaning/pipe/options.h"
#include "lib/send/delivery/incoming.h"
#include "lib/send/mailbox/child.h"
#include "lib/send/mailbox/policy.h"

namespace pen::pipes {

struct Rules {
  Options options;
  mailbox::Identity identity;
  std::string service;                   // in master.cf
  std::string delimiters;                // recipient_delimiter
  std::vector<std::string> environment;  // export_environment, and PATH
  bool allow_minus = false;              // allow_min_user
  seconds time_limit{1000};              // <transport>_time_limit
};

/// What the process that becomes the command's user may do: this command as this user.
mailbox::Policy policy_for(const Rules& rules);

/// Why this recipient gets no delivery; nullopt: no objection.
std::optional<mail::DeliveryStatus> objection(const Rules& rules, const delivery::Incoming& message,
                                              const mail::Recipient& recipient);

/// argv with its macros replaced. An argument with a macro for a recipient is repeated for each recipient.
std::vector<std::string> command_line(const Rules& rules, const delivery::Incoming& message,
                                      const std::vector<mail::Recipient>& recipients);

/// All that the child process needs; recipients: at least one, and only one if options.one_by_one().
mailbox::Work work_for(const Rules& rules, const delivery::Incoming& message,
                       const std::vector<mail::Recipient>& recipients, WallTime now);

}  // namespace pen::pipes
