#pragma once
/// Delivers mail to local users: aliases, forward files, mailboxes.
///
/// Order:   Delivered-To loop check; alias_maps (once, to their ends); the user's forward file; the mailbox.
/// Promise: the answer "sent" comes only after the message is on stable storage in its mailbox, or in the queue again.
///          What goes to several destinations is queued again as one new message, whose recipients then succeed or fail
///          each for itself; only mailboxes that would expand for ever are written first (expand.h).
/// Thread:  the loop's; look-ups and deliveries block on the handler pool, one thread each.
/// Source:  Postfix local(8), RFC 3461 section 5.2.7 (notices asked for of an alias).
#include <memory>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/base/random.h"
#include "lib/mailbox/accounts.h"
#include "lib/mailbox/incoming.h"
#include "lib/map/map.h"
#include "local/expand.h"

namespace pen::local {

struct Rules {
  std::string myhostname, myorigin;
  std::string delimiters;  // recipient_delimiter
  std::string home_mailbox;
  std::string mail_spool_directory;
  std::string luser_relay;
  std::vector<std::string> forward_paths;  // forward_path, unexpanded
  std::string default_privs = "nobody";
  std::uint64_t mailbox_size_limit = 0;
  mailbox::LockRules lock;
  bool mark_files = true, mark_forwards = true;  // prepend_delivered_header
  seconds time_limit{1000};
};

class Agent {
 public:
  /// All must outlive the agent.
  Agent(async::HandlerPool& pool, mailbox::Requeue& requeue, Rules rules, map::MapList aliases,
        const Clock& clock, Random& random);

  /// One recipient. The answer's text is what the log line shows.
  async::Task<mail::DeliveryStatus> deliver(std::shared_ptr<const mailbox::Incoming> message,
                                            mail::Recipient recipient);

 private:
  struct Plan;
  struct Shared;
  async::Task<mail::DeliveryStatus> carry_out(std::shared_ptr<const mailbox::Incoming> message,
                                              mail::Recipient recipient, Plan plan,
                                              bool from_forward);
  async::Task<mail::DeliveryStatus> to_user(std::shared_ptr<const mailbox::Incoming> message,
                                            mail::Recipient recipient, std::string user,
                                            std::string owner, bool skip_forward);
  async::Task<mail::DeliveryStatus> send_on(std::shared_ptr<const mailbox::Incoming> message,
                                            mail::Recipient recipient, std::vector<std::string> to,
                                            std::string owner);

  async::HandlerPool& pool_;
  mailbox::Requeue& requeue_;
  std::shared_ptr<const Shared> shared_;
  const Clock& clock_;
  Random& random_;
  unsigned long long count_ = 0;
};

}  // namespace pen::local
