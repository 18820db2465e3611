#pragma once
/// A round of a message: each recipient that is left gets a result, then the round is over and the
/// message is concluded.
///
/// State:   the messages with a round that may be over. What a round has reached is in the message
///          (Active: outstanding, syncing, reporting, order).
/// Use:     deferred() or done() for every recipient that the scheduler or a program gives back;
///          next_over() in each settle(), until nullptr.
/// Rules:   a result that lasts is a DELIVERY record, and counts when that is durable; a deferral
///          is only remembered, and is written with the message's next version.
#include <deque>
#include <functional>
#include <string_view>

#include "lib/base/metrics/labels.h"
#include "qmgr/acknowledgements.h"
#include "qmgr/active_set.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Rounds {
 public:
  Rounds(const Surroundings& around, ActiveSet& active, Acknowledgements& acknowledgements)
      : around_(around), active_(active), acknowledgements_(acknowledgements) {}

  /// These wait for another try. A probe has one try only: there it is their last result, unless an
  /// order took them back.
  void deferred(Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  /// These have their last result.
  void done(Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  /// Nothing happened to these: the scheduler gave them back.
  void untried(Active& m, const Ordinals& ordinals);
  /// soft_bounce: what a program or the routing refused waits for another try. A probe gets no second try.
  void soften(const Active& m, mail::DeliveryStatus& status, bool soft) const;
  /// The line of the log for recipients that no delivery program had a result for. relay empty:
  /// none.
  void log_undelivered(const Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status,
                       std::string_view relay = {}) const;

  /// Reports to watchers what happened to these recipients.
  void tell(const Active& m, const Ordinals& ordinals, ipc::queue::Happened what) const;

  /// The round ends early, as an order says; `then` hears whether the order was obeyed. Recipients
  /// in hand end first.
  void end_by_order(Active& m, Active::Order order, std::function<void(bool)> then = {});
  /// Returns the recipients that are left to the sender if the message is too old, kExpiredTogether of them at a
  /// time. True: it comes back when that is durable.
  bool expire(Active& m);
  static constexpr std::size_t kExpiredTogether = 1000;  // their events are some 400 KB at most
  /// The end of a message of which the disk has kept too little.
  void lose(Active& m);

  /// Something that the end of the round waits for has happened.
  void look_at(MessageNumber message) { may_be_over_.push_back(message); }
  bool any_to_look_at() const { return !may_be_over_.empty(); }
  /// The next message with a round that is over. nullptr: none.
  Active* next_over();

 private:
  void returned(Active& m, std::size_t recipients);
  void count_final(const Active& m, std::size_t recipients, metrics::Fate fate) const;

  const Surroundings& around_;
  ActiveSet& active_;
  Acknowledgements& acknowledgements_;
  bool expiring_ = false;  // done() is about a message that was too old
  std::deque<MessageNumber> may_be_over_;
};

}  // namespace pen::qmgr
