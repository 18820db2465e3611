#pragma once
/// The queue manager's heart: brings queue log, active set and scheduler together. No sockets, no threads, no waiting.
///
/// A message's way: enqueue() appends its envelope; committed() says it is durable and the receiver is answered; with
/// the next settle() the message enters the active set from memory; the scheduler routes it and forms jobs; job results become delivery
/// records; when they are durable and nothing is outstanding the round ends (conclude()): the message is finished,
/// a report goes to bounce, or a replacement goes to a retry log, from where the runner brings it back.
/// Use:     edges (enqueue_server, router_feed, delivery_agent, bounce_feed, queue_server) call the events; the
///          Manager calls its Ports. Every event opens a Turn, at whose end Ports::settle_soon() asks for settle().
///          settle() is wanted as well when wake_at() has come. The edge that owns the writer thread takes batches
///          (queue_log::Writer in Program) and calls committed().
/// Rules:   nothing is acknowledged before its record is durable; the active set is bounded in messages and bytes;
///          io_error of the log ends the process (Ports::fatal).
/// Source:  docs/design.md "The queue log"; log lines as Postfix's qmgr.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/async/stream.h"
#include "lib/base/random.h"
#include "lib/ipc/bounce.h"
#include "lib/ipc/delivery.h"
#include "lib/ipc/enqueue.h"
#include "lib/ipc/queue.h"
#include "lib/ipc/route.h"
#include "lib/queue_log/queue_log.h"
#include "lib/queue_log/scan.h"
#include "qmgr/acknowledgements.h"
#include "qmgr/active_set.h"
#include "qmgr/jobs.h"
#include "qmgr/message.h"
#include "qmgr/reports.h"
#include "qmgr/rounds.h"
#include "qmgr/route_requests.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/surroundings.h"
#include "qmgr/turn.h"

namespace pen::qmgr {

class Manager {
 public:
  Manager(ManagerOptions options, queue_log::QueueLog& log, Scheduler& scheduler, Ports& ports,
          const Clock& clock);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // --- receivers ---
  using Answer = std::function<void(ipc::enqueue::Outcome, std::string)>;
  /// answer is called once, in this call (refused) or from committed(). An envelope that discharges reports needs the
  /// permit that bounce was given with the request for just them (docs/ipc.md, "Who may say what").
  void enqueue(mail::Envelope&& envelope, std::uint64_t permit, std::string_view inline_body,
               std::uint64_t spool_file, std::uint64_t spool_offset, Answer answer);
  bool accepting() const;
  /// The active set can take another message.
  bool room() const { return active_.has_room(); }

  /// What an event may speak to. Reached through event() alone.
  struct Parts {
    RouteRequests& routes;
    Jobs& jobs;
    Reports& reports;
    Scheduler& scheduler;
  };
  /// The guard of an event: manager.event()->routes.routed(answer).
  class Event {
   public:
    Event(Turns& turns, Parts parts) : turn_(turns), parts_(parts) {}
    Parts* operator->() { return &parts_; }

   private:
    Turn turn_;
    Parts parts_;
  };
  Event event() { return Event(turns_, {routes_, jobs_, reports_, scheduler_}); }

  // --- session leases ---
  /// It is closed on the wire, or was taken back before the program was reached: what it held of limits is free.
  void connection_gone(ConnectionNumber connection) { ports_.release_session(connection); }
  void session_answer(ConnectionNumber connection, bool granted);

  // --- the log's writer ---
  /// A commit is back: more is durable.
  void committed();

  // --- tools ---
  /// Orders for one message, wherever it is. done(outcome) is called when the order is durable. A flush, which
  /// brings a message into the active set, waits for room there, in turn with the runners: the caller bounds how many it
  /// gives before the first are done. The others that leave a message in the queue write it anew, and need space.
  using Done = std::function<void(ipc::queue::Outcome)>;
  void order(const queue_log::Listed& where, ipc::queue::Verb verb, Done done);
  /// Every message that waits for a retry is due now: one mark per retry log.
  void flush_all();
  /// Messages left the logs behind the runners' backs: they look whether their heads are still there, so that segments
  /// that hold nothing any more are given back.
  void look_again();
  /// Orders for many messages that are being carried out. Meanwhile the hold log is not written anew: what moves on it
  /// then looks like a message that was put there after the order.
  int orders_for_many = 0;
  /// Calls fn once when the next commit is back.
  void after_commit(std::function<void()> fn) { after_commit_.push_back(std::move(fn)); }
  /// Looks for these queue ids in the queue log; none: for every message that is stored.
  std::unique_ptr<queue_log::Scan> find_stored(
      std::vector<std::string> queue_ids,
      queue_log::InTransit transit = queue_log::InTransit::left_out) {
    const Turn turn(turns_);
    return log_.find(std::move(queue_ids), transit);
  }
  /// Records that nobody waits for are written as well.
  void flush_log() {
    const Turn turn(turns_);
    log_.flush();
  }
  /// Calls fn in a settle() once recovery has ended: before that no order can be given.
  void when_recovered(std::function<void()> fn);
  /// A message that is being worked on: for listings.
  const Active* find(std::string_view queue_id) const { return active_.find(queue_id); }

  // --- turning ---
  void settle();
  /// When settle() is wanted without an event; kNever: not.
  SteadyTime wake_at() const;
  /// Nothing more is handed out. What waits then waits for the next start, which tries it at once: a transport that is
  /// gone now was told to go, so transport_failed() has no effect any more.
  void drain() {
    const Turn turn(turns_);
    jobs_.drain();
    scheduler_.drain();
  }
  /// A flush: destinations that wait for their retry time may be tried at once.
  void forgive() {
    const Turn turn(turns_);
    routes_.forget_routes();
    scheduler_.forgive();
  }

  struct Figures {
    std::uint64_t accepted = 0, finished = 0, deferred = 0, bounced = 0, recovered = 0, parked = 0;
    std::size_t active = 0, active_bytes = 0, kept_body_bytes = 0;
  };
  Figures figures() const;
  const Scheduler& scheduler() const { return scheduler_; }
  queue_log::QueueLog& log() { return log_; }

 private:
  struct Runner {
    bool look = true;              // ask the log at the next settle
    std::optional<WallTime> next;  // when its head is due
    bool after_commit = false;     // ask again when the batch is back
  };
  // manager.cc
  /// Whether one more message may be begun: the disk has room for the replacements of all of them as well.
  bool may_admit() const;
  MessageNumber admit(std::unique_ptr<Active> m);
  void admit_new();
  void run_runners();
  /// Something is due and finds no room.
  bool others_wait() const;
  /// Makes room: messages that wait for slow hosts with more than their share go to the shortest retry log.
  void park_excess();
  bool run_log(queue_log::LogId log);
  bool run_order();
  /// Whether work on a version that a log's runner came to was begun; if not, when the runner looks again.
  bool begun(const std::string& id, queue_log::LogId log, Result<void> started);
  /// nullptr: what is stored cannot be read, and is on hold now.
  std::unique_ptr<Active> read_begun(queue_log::Stored&& stored);
  bool take_stored(queue_log::LogId log, queue_log::Stored&& stored);

  void do_actions();
  void act(const RouteRecipient& a) { routes_.ask(a); }
  void act(const OpenConnection& a);
  void act(HandJob& a) { jobs_.hand(a); }
  void act(const CloseConnection& a);
  void act(const DeferRecipients& a) { jobs_.deferred(a); }

  // outcomes.cc
  void conclude(Active& m);
  void finish(Active& m);
  void defer(Active& m);
  seconds next_delay(const Active& m, seconds usual) const;
  void obey(Active& m);

  struct Tries {
    /// Commits that a message on its way between two logs is waited for: each of those in hand when it set out ends
    /// before the one that takes it there.
    int moving = 2 * queue_log::QueueLog::kBatchesAtOnce;
    int space = 100;  // commits that may bring a free segment
  };
  void order(const queue_log::Listed& where, ipc::queue::Verb verb, Done done, Tries tries);

  template <class T>
  T must(Result<T> r) {
    return around_.must(std::move(r));
  }
  WallTime now() const { return clock_.wall_now(); }

  Surroundings around_;
  Turns turns_{around_};
  const ManagerOptions& options_;
  std::vector<Action> actions_;  // being carried out; their memory serves the next ones
  static constexpr std::size_t kKeptActions =
      2000;  // some hundred bytes each; a flood's memory goes
  queue_log::QueueLog& log_;
  Scheduler& scheduler_;
  Ports& ports_;
  const Clock& clock_;

  ActiveSet active_{around_};
  Acknowledgements acknowledgements_{around_.log};
  Rounds rounds_{around_, active_, acknowledgements_};
  Reports reports_{around_, active_, rounds_};
  RouteRequests routes_{around_, active_, rounds_};
  Jobs jobs_{around_, active_, rounds_};
  queue_log::Envelope appended_;  // its memory serves the next one
  std::unordered_map<ConnectionNumber, OpenConnection> session_asked_;  // no lease yet
  // New mail that is durable and was answered for: admitted by settle(), so that no answer waits for that work.
  std::deque<std::unique_ptr<Active>> durable_new_;
  std::vector<std::function<void()>> after_commit_;
  std::vector<std::function<void()>> when_recovered_;
  struct OrderWaits {
    queue_log::Listed where;
    ipc::queue::Verb verb;
    Done done;
  };
  std::deque<OrderWaits> orders_waiting_;  // for room in the active set
  bool order_turn_ = false;
  std::vector<Runner> runners_;
  bool journal_turn_ = true;
  std::size_t retry_turn_ = 0;
  SteadyTime parked_told_{};
  // what was deferred before that is tried even if defer_transports says no
  WallTime flushed_at_{};
  bool accepting_ = true;
  Figures figures_;
};

}  // namespace pen::qmgr
