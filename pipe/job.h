#pragma once
/// One message for one command: its words, and what it reads before the content. Pure.
///
/// Safety:  no shell comes near the words. An address is one word or a part of one, whatever it holds; one that begins
///          with - is refused (unless allow_min_user), for a command would take it for an option.
/// Source:  Postfix pipe(8).
#include <optional>
#include <string>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/mailbox/child.h"
#include "lib/mailbox/incoming.h"
#include "pipe/options.h"

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

/// Why this recipient (of this sender) gets no delivery; nullopt: nothing is against it.
std::optional<mail::DeliveryStatus> objection(const Rules& rules, const mailbox::Incoming& message,
                                              const mail::Recipient& recipient);

/// argv with its names replaced; a word that names something of a recipient is there once for each.
std::vector<std::string> command_line(const Rules& rules, const mailbox::Incoming& message,
                                      const std::vector<mail::Recipient>& recipients);

/// All that the child needs; recipients: at least one, and only one where options.one_by_one().
mailbox::Work work_for(const Rules& rules, const mailbox::Incoming& message,
                       const std::vector<mail::Recipient>& recipients, WallTime now);

}  // namespace pen::pipes
