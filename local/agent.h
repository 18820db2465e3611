#pragma once
/// Delivers mail to local users: aliases, forward files, mailboxes, commands.
///
/// Order:   loop check by Delivered-To; alias_maps, once, to their ends; the user's forward file; mailbox_transport,
///          mailbox_command, the mailbox. See docs/local-delivery.md.
/// Promise: the answer is "sent" only when the message is on stable storage in its mailbox, taken by its command, or
///          in the queue again. Mail for several addresses is queued again as a new message, so that each recipient
///          succeeds or fails alone. Deliveries that can only be made here are made once each: Progress remembers the
///          finished ones while others are retried.
/// Lists:   mail for an alias with an owner- alias is sent on with the owner as sender, and the owner hears of
///          failures here. The poster's ENVID, RET, NOTIFY and ORCPT end here; for the poster the list's acceptance
///          is the delivery.
/// Thread:  the loop's; look-ups and deliveries block on the handler pool, one thread each.
/// Source:  Postfix local(8), RFC 3461 section 5.2.7 (notices asked for of an alias; 5.2.7.3: of a list).
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/random.h"
#include "lib/map/ask.h"
#include "lib/send/delivery/incoming.h"
#include "local/deliveries.h"
#include "local/progress.h"
#include "local/requeue.h"
#include "local/turns.h"

namespace pen::local {

class Agent {
 public:
  /// All must outlive the agent. lookups: threads for aliases; deliveries: threads for the rest. If the one kind
  /// hangs, mail that needs only the other continues.
  Agent(async::Loop& loop, async::HandlerPool& lookups, async::HandlerPool& deliveries, Requeue& requeue, Rules rules,
        map::MapList aliases, Random& random);

  /// Delivers to one recipient. The log line shows the answer's text.
  async::Task<mail::DeliveryStatus> deliver(std::shared_ptr<const delivery::Incoming> message,
                                            mail::Recipient recipient);

 private:
  using Message = std::shared_ptr<const delivery::Incoming>;
  /// How a destination was reached, as in Delivery.
  struct Way {
    std::vector<std::string> followed;
    std::shared_ptr<Tour> tour;
  };
  async::Task<mail::DeliveryStatus> carry_out(Message message, mail::Recipient recipient, Expansion expansion, Way way);
  async::Task<mail::DeliveryStatus> one(Message message, mail::Recipient recipient, Direct direct, Way way);
  async::Task<mail::DeliveryStatus> to_user(Message message, mail::Recipient recipient, std::string user,
                                            std::string sender, bool skip_forward, Way way);
  /// through: as in Expansion.
  async::Task<mail::DeliveryStatus> send_on(Message message, mail::Recipient recipient, Group group,
                                            std::vector<std::string> through, std::string transport);
  /// Reports a failure under a list to the list's owner, instead of to the sender, who knows only the list. Other
  /// results are returned unchanged, as is a failure that will be retried (soft_bounce).
  async::Task<mail::DeliveryStatus> tell_owner(Message message, mail::Recipient recipient, std::string owner,
                                               mail::DeliveryStatus status);
  /// Waits for a delivery thread; who: the account or alias it is for. False: none became free in time.
  async::Task<bool> take_turn(std::string who);
  mail::DeliveryStatus no_turn(const std::string& who) const;
  Delivery delivery(const Message& message, const mail::Recipient& recipient, const std::string& sender);

  async::Loop& loop_;
  map::Asker tables_;
  async::HandlerPool& lookups_;
  async::HandlerPool& deliveries_;
  Requeue& requeue_;
  std::shared_ptr<const Shared> shared_;
  Random& random_;
  Progress progress_;
  Turns turns_, lookup_turns_;
  unsigned long long count_ = 0;
};

}  // namespace pen::local
