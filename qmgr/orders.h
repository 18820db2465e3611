#pragma once
/// Orders of tools for one message, wherever it is: remove, hold, release, requeue, expire, flush.
///
/// State:   the flushes that wait for room in the active set, the orders that are tried again after a commit, and how
///          many orders for many messages (QueueServer) are being carried out. An order for a message that is being
///          worked on is kept in the message (Active::order), and carried out when its round ends.
/// Use:     give() is an event of the tools; carry_out() ends the round of a message that has an order; run_waiting()
///          in turn with the runners; commit_came() after each commit.
/// Rules:   success is said when the order is durable. An order that leaves the message in the queue writes it anew,
///          and needs space that is not kept for deliveries.
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lib/suite/ipc/queue.h"
#include "qmgr/acknowledgements.h"
#include "qmgr/active_set.h"
#include "qmgr/admission.h"
#include "qmgr/rounds.h"
#include "qmgr/runners.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Orders {
 public:
  Orders(const Surroundings& around, ActiveSet& active, Acknowledgements& acknowledgements, Rounds& rounds,
         Admission& admission, Runners& runners)
      : around_(around),
        active_(active),
        acknowledgements_(acknowledgements),
        rounds_(rounds),
        admission_(admission),
        runners_(runners) {}

  /// done(outcome) is called when the order is durable, or has failed. A flush, which brings a message into the active
  /// set, waits for room there: the caller bounds how many it gives before the first are done.
  using Done = std::function<void(ipc::queue::Outcome)>;
  /// by: the user who gave the order, for events.
  /// named: the message, and not a set that it is of. Then a flush sends one whose time has not come.
  void give(const queue_log::Listed& where, ipc::queue::Verb verb, Done done, std::string by = {}, bool named = false);

  /// The end of the round of a message with an order.
  void carry_out(Active& m);
  /// The oldest order that waits for room. False: none does.
  bool run_waiting();
  bool any_waiting() const { return !waiting_.empty(); }
  void commit_came();
  /// Messages that orders removed while they were being worked on.
  std::uint64_t removed() const { return removed_; }

  /// An order for many messages is being carried out while one of these lives. Meanwhile the hold log is not
  /// compacted: a message that it moves would look newer than the order.
  class Bulk {
   public:
    explicit Bulk(Orders& orders) : number_(orders.bulk_) { ++number_; }
    ~Bulk() { --number_; }
    Bulk(const Bulk&) = delete;
    Bulk& operator=(const Bulk&) = delete;

   private:
    int& number_;
  };
  bool bulk() const { return bulk_ > 0; }

 private:
  /// One order, until it is durable or has failed. It is copied to where it waits.
  class Order {
   public:
    Order(Orders& orders, queue_log::Listed where, ipc::queue::Verb verb, Done done, std::string by, bool named)
        : orders_(&orders),
          where_(std::move(where)),
          verb_(verb),
          done_(std::move(done)),
          by_(std::move(by)),
          named_(named) {}
    /// Carries it out as far as it can be now.
    void give();

   private:
    void on_active(Active& m);
    void at_rest();
    /// Without reading the record. False: it must be read.
    bool remove_unread();
    void remove(queue_log::Stored stored);
    void rewrite(queue_log::Stored stored);
    void flush(queue_log::Stored stored);
    /// The log does not let go of the message: fails, or tries again after a commit.
    void refused(const Error& why);
    /// False: it has been tried often enough.
    bool again(int& tries);
    void when_durable(queue_log::Ticket ticket);
    bool held() const { return where_.place.log == queue_log::kHold; }

    Orders* orders_;
    queue_log::Listed where_;
    ipc::queue::Verb verb_;
    Done done_;
    std::string by_;
    bool named_;
    /// Commits that a message on its way between two logs is waited for: each of those in hand when it set out ends
    /// before the one that takes it there.
    int moving_ = 2 * queue_log::QueueLog::kBatchesAtOnce;
    int space_ = 100;  // commits that may bring a free segment
  };

  const Surroundings& around_;
  ActiveSet& active_;
  Acknowledgements& acknowledgements_;
  Rounds& rounds_;
  Admission& admission_;
  Runners& runners_;
  std::deque<Order> waiting_;  // for room in the active set
  std::vector<Order> again_;   // after the next commit
  int bulk_ = 0;
  std::uint64_t removed_ = 0;
};

}  // namespace pen::qmgr
