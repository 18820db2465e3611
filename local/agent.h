#pragma once
/// Delivers mail to local users: aliases, forward files, mailboxes, commands.
///
/// Order:   Delivered-To loop check; alias_maps (once, to their ends); the user's forward file; mailbox_transport,
///          mailbox_command, the mailbox. docs/local-delivery.md.
/// Promise: the answer "sent" comes only after the message is on stable storage in its mailbox, taken by its command,
///          or in the queue again. What goes to several addresses is queued again as a new message, whose recipients
///          then succeed or fail each for itself; what can only be done here is done here, each once: what is behind
///          us when something else has to be tried again is remembered (Progress).
/// Lists:   under an owner- alias the owner is the sender of what is sent on, and is told of what fails here; nothing
///          that the poster asked for (ENVID, RET, NOTIFY, ORCPT) goes on, and to him the list's acceptance is the
///          delivery.
/// Thread:  the loop's; look-ups and deliveries block on the handler pool, one thread each.
/// Source:  Postfix local(8), RFC 3461 section 5.2.7 (notices asked for of an alias; 5.2.7.3: of a list).
#include <memory>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/base/random.h"
#include "lib/mailbox/incoming.h"
#include "lib/map/ask.h"
#include "local/deliveries.h"
#include "local/progress.h"
#include "local/turns.h"

namespace pen::local {

class Agent {
 public:
  /// All must outlive the agent. lookups: the threads for aliases, deliveries: those for the rest: what hangs in one of
  /// them does not stop mail that needs the other only.
  Agent(async::Loop& loop, async::HandlerPool& lookups, async::HandlerPool& deliveries, mailbox::Requeue& requeue,
        Rules rules, map::MapList aliases, Random& random);

  /// One recipient. The answer's text is what the log line shows.
  async::Task<mail::DeliveryStatus> deliver(std::shared_ptr<const mailbox::Incoming> message,
                                            mail::Recipient recipient);

 private:
  using Message = std::shared_ptr<const mailbox::Incoming>;
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
  /// A failure under a list with an owner- alias: told to him, so that the sender, who knows only the list, is not.
  /// Everything else as it is, and a failure that will be tried again (soft_bounce).
  async::Task<mail::DeliveryStatus> tell_owner(Message message, mail::Recipient recipient, std::string owner,
                                               mail::DeliveryStatus status);
  /// For a delivery thread; who: account or alias that it is for. False: none came free in time.
  async::Task<bool> take_turn(std::string who);
  mail::DeliveryStatus no_turn(const std::string& who) const;
  Delivery delivery(const Message& message, const mail::Recipient& recipient, const std::string& sender);

  async::Loop& loop_;
  map::Asker tables_;
  async::HandlerPool& lookups_;
  async::HandlerPool& deliveries_;
  mailbox::Requeue& requeue_;
  std::shared_ptr<const Shared> shared_;
  Random& random_;
  Progress progress_;
  Turns turns_, lookup_turns_;
  unsigned long long count_ = 0;
};

}  // namespace pen::local
