#pragma once
/// Delivers mail to virtual mailboxes: whether there is one, its path and its owner come from look-ups.
///
/// Path:    $virtual_mailbox_base/<value of virtual_mailbox_maps>; a final / makes it a Maildir, else it is an mbox.
/// Keys:    user+ext@domain, user@domain, @domain, in this order, in each of the three tables.
/// Thread:  the loop's; look-ups and deliveries block on the handler pool.
/// Source:  Postfix virtual(8).
#include <memory>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/random.h"
#include "lib/mail/delivery_status.h"
#include "lib/map/ask.h"
#include "lib/send/delivery/incoming.h"
#include "lib/send/mailbox/child.h"

namespace pen::virtuals {

struct Rules {
  std::string myhostname;
  std::string delimiters;  // recipient_delimiter
  std::string base;        // virtual_mailbox_base
  map::MapList mailboxes, uids, gids;
  unsigned minimum_uid = 100;
  // Accounts of the mail system and their groups: no mailbox is theirs.
  std::vector<uid_t> kept_uids = {};
  std::vector<gid_t> kept_gids = {};
  std::uint64_t mailbox_limit = 0;
  mailbox::LockRules lock;
  bool strict_ownership = true;  // strict_mailbox_ownership
  seconds time_limit{1000};
};

/// The accounts and files that a process for several mailboxes may have.
mailbox::Round round_of(const Rules& rules);

/// The mailbox of an address; pure but for the table look-ups.
struct Place {
  mailbox::Target target;
  mailbox::Identity identity;
};
/// Errors: the status, 5.1.1 for an unknown user, 4.3.x for what an administrator must repair.
std::expected<Place, mail::DeliveryStatus> find_place(const Rules& rules, const std::string& address);

class Agent {
 public:
  /// All must outlive the agent.
  Agent(async::Loop& loop, async::HandlerPool& pool, Rules rules, Random& random);
  async::Task<mail::DeliveryStatus> deliver(std::shared_ptr<const delivery::Incoming> message,
                                            mail::Recipient recipient);

 private:
  map::Asker tables_;
  async::HandlerPool& pool_;
  std::shared_ptr<const Rules> rules_;
  const Clock& clock_;
  Random& random_;
  unsigned long long count_ = 0;
};

}  // namespace pen::virtuals
