#pragma once
/// The queue manager's heart: brings queue log, active set and scheduler together. No sockets, no threads, no waiting.
///
/// A message's way: NewMail appends its envelope, and answers when that is durable; with the next settle() the message
/// enters the active set from memory; the scheduler routes it and forms jobs; job results become delivery records; when
/// they are durable and nothing is outstanding the round ends (conclude()): the message is finished, a report goes to
/// bounce, or a replacement goes to a retry log, from where a runner brings it back.
/// State:   its parts have it (docs/queue-manager.md says which has what); the Manager has the turn.
/// Use:     edges (enqueue_server, router_feed, delivery_agent, bounce_feed, queue_server) reach the parts by
///          event(); the parts call the edges by Ports. An event opens a Turn, at whose end Ports::settle_soon() asks
///          for settle(). settle() is wanted as well when wake_at() has come. The edge that owns the writer thread
///          takes batches (queue_log::Writer in Program) and calls committed().
/// Rules:   nothing is acknowledged before its record is durable; the active set is bounded in messages and bytes;
///          io_error of the log ends the process (Ports::fatal).
/// Source:  docs/design.md "The queue log", RFC 5321 section 6.1; log lines as Postfix's qmgr.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/queue/queue_log/scan.h"
#include "qmgr/acknowledgements.h"
#include "qmgr/active_set.h"
#include "qmgr/admission.h"
#include "qmgr/jobs.h"
#include "qmgr/new_mail.h"
#include "qmgr/ordered_connections.h"
#include "qmgr/orders.h"
#include "qmgr/reports.h"
#include "qmgr/rounds.h"
#include "qmgr/route_requests.h"
#include "qmgr/runners.h"
#include "qmgr/surroundings.h"
#include "qmgr/turn.h"

namespace pen::qmgr {

class Manager {
 public:
  Manager(ManagerOptions options, queue_log::QueueLog& log, Scheduler& scheduler, Ports& ports, const Clock& clock);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // --- events ---
  /// What an event may speak to.
  struct Parts {
    NewMail& new_mail;
    RouteRequests& routes;
    Jobs& jobs;
    Reports& reports;
    Orders& orders;
    Runners& runners;
    OrderedConnections& connections;
    Scheduler& scheduler;
  };
  /// The only way to the parts: `manager.event()->routes.routed(answer)`. Ends with the statement.
  class Event {
   public:
    Event(Turns& turns, const Parts& parts) : turn_(turns), parts_(parts) {}
    const Parts* operator->() const { return &parts_; }

   private:
    Turn turn_;
    const Parts& parts_;
  };
  Event event() { return {turns_, parts_}; }

  /// A commit is back: more is durable. What waited for it is called by the settle that follows.
  void committed();
  /// How many there were: they come while mail does.
  std::uint64_t commits() const { return commits_; }
  /// A connection is closed on the wire, or was taken back before the program was reached: what it held of limits is
  /// free.
  void connection_gone(ConnectionNumber connection) { around_.ports.release_session(connection); }

  // --- tools ---
  /// A flush of everything: every message that waits for a retry is due now.
  void flush_all();
  /// A flush: destinations that wait for their retry time may be tried at once.
  void forgive();
  /// Looks for these queue ids in the queue log; none: for every message that is stored.
  std::unique_ptr<queue_log::Scan> find_stored(std::vector<std::string> queue_ids,
                                               queue_log::InTransit transit = queue_log::InTransit::left_out);
  /// Calls fn once when the next commit is back, and has records written that nobody else waits for.
  void after_commit(std::function<void()> fn);
  /// Calls fn in a settle() once recovery has ended: before that no order can be given.
  void when_recovered(std::function<void()> fn) { when_recovered_.push_back(std::move(fn)); }
  /// An order for many messages is being carried out.
  bool bulk_order() const { return orders_.bulk(); }

  // --- turning ---
  void settle();
  /// When settle() is wanted without an event; kNever: not.
  SteadyTime wake_at() const;
  /// Nothing more is handed out. What waits then waits for the next start, which tries it at once: a transport that is
  /// gone now was asked to go, so its failure has no effect any more.
  void drain();

  // --- to look at ---
  bool accepting() const { return accepting_; }
  /// How many of the tenant's messages wait for its share of the active set, as far as that is remembered.
  std::size_t share_waits(const std::string& tenant) const { return active_.tenants().waiting(tenant); }
  /// The same for those of a message's class.
  std::size_t urgency_waits(const Active& m) const {
    return active_.urgencies().waiting(ActiveSet::urgency_name(m.envelope()));
  }
  /// A message that is being worked on; nullptr: it is not.
  const Active* find(std::string_view queue_id) const { return active_.find(queue_id); }
  struct Figures {
    std::uint64_t accepted = 0, finished = 0, deferred = 0, bounced = 0, parked = 0, parked_by_share = 0;
    std::size_t active = 0, active_bytes = 0, kept_body_bytes = 0;
  };
  Figures figures() const;
  const Scheduler& scheduler() const { return around_.scheduler; }
  queue_log::QueueLog& log() { return around_.log; }
  Egress* egress() const { return around_.options.egress.get(); }

 private:
  void do_actions();
  void act(const RouteRecipient& a) { routes_.ask(a); }
  void act(const OpenConnection& a) { connections_.order(a); }
  void act(HandJob& a) { jobs_.hand(a); }
  void act(const CloseConnection& a) { connections_.close(a); }
  void act(const DeferRecipients& a) { jobs_.deferred(a); }

  /// The end of a round.
  void conclude(Active& m);
  void finish(Active& m);
  void defer(Active& m);
  /// Orders that wait and the runners take turns, as long as there is room.
  void bring_messages();
  /// Something is due, and finds no room.
  bool others_wait() const;

  Surroundings around_;
  Turns turns_{around_};
  ActiveSet active_{around_};
  Acknowledgements acknowledgements_{around_.log};
  Rounds rounds_{around_, active_, acknowledgements_};
  Reports reports_{around_, active_, rounds_};
  RouteRequests routes_{around_, active_, rounds_};
  Jobs jobs_{around_, active_, rounds_};
  Admission admission_{around_, active_, rounds_};
  Runners runners_{around_, admission_, reports_};
  NewMail new_mail_{around_, active_, acknowledgements_, reports_, admission_, runners_};
  Orders orders_{around_, active_, acknowledgements_, rounds_, admission_, runners_};
  OrderedConnections connections_{around_};
  const Parts parts_{new_mail_, routes_, jobs_, reports_, orders_, runners_, connections_, around_.scheduler};

  std::vector<Action> actions_;                      // being carried out; their memory serves the next ones
  static constexpr std::size_t kKeptActions = 2000;  // some hundred bytes each; a flood's memory goes
  std::vector<std::function<void()>> when_recovered_;
  bool order_turn_ = false, share_turn_ = false;
  const SteadyTime started_;
  bool accepting_;
  std::uint64_t finished_ = 0, deferred_ = 0, commits_ = 0;
};

}  // namespace pen::qmgr
