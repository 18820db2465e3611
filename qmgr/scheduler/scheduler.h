#pragma once
/// The scheduler: routes recipients fairly, forms delivery jobs and chooses the connection for each.
///
/// An object without I/O: events are calls, and what is to be done about them comes back as Actions. The same object
/// runs in qmgr, in the scenario files and in simulations. It never walks all jobs or all destinations: an event
/// costs O(log n) in the number of waiting messages plus the connections of one preference level.
///
/// Source:  docs/design.md and docs/origins.md, "The scheduler"; docs/scheduler.md says where each rule lives.
/// Use:     set_time(now, wall) before each batch of events; then events; then take_actions() and do them in
///          order; call tick() when next_wake() has come.
/// Words:   a worker is one look-up under way (routing) or one connection (delivery); a connection's backlog is
///          all jobs given to it and not finished, of which at most `window` were handed to the delivery
///          program.
/// Thread:  one. Table and Random must outlive it. Same seed and events: same actions.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/time.h"
#include "lib/queue/destdb/facts.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/route.h"
#include "qmgr/scheduler/shaping_options.h"
#include "qmgr/scheduler/urgency.h"
#include "qmgr/scheduler/worker_queue.h"

namespace pen::qmgr {

using MessageNumber = std::uint64_t;  // the caller's choice, unique while the message is here
using SourceNumber = std::uint64_t;   // of senders and the like: any that is not 0
using JobNumber = std::uint64_t;
using ConnectionNumber = std::uint64_t;
using Ordinals = std::vector<std::uint32_t>;

/// Limits of one transport; 0 in a limit means none.
struct TransportLimits {
  std::uint32_t workers = 100;                 // master.cf maxproc, or default_process_limit: connections at once
  std::uint32_t destination_concurrency = 20;  // <transport>_destination_concurrency_limit
  // <transport>_destination_recipient_limit; 1: the recipient is the destination
  std::uint32_t destination_recipients = 50;
  milliseconds idle_age{2000};    // an idle connection is closed after this (connection cache time)
  milliseconds max_age{300'000};  // connection_max_age: then no new jobs, and closed
  bool deferred = false;          // defer_transports: its jobs wait for a flush
  // <transport>_destination_rate_delay: from the end of a delivery to the begin of the next; then one connection only
  milliseconds rate_delay{0};
  // <transport>_transport_rate_delay: from the begin of a delivery to the begin of the next, to whatever destination;
  // then one worker only
  milliseconds transport_rate_delay{0};
  // hosts that a job may be handed to in one round (<transport>_mx_session_limit)
  std::uint32_t sessions = 0;
  // recipients of a message with equal hosts share a job though their next hops differ (smtp_combine_domains)
  bool combine_domains = false;
  // initial_destination_concurrency: connections to a destination that is new, or back; each job done allows one more
  std::uint32_t initial_concurrency = 0;
  // <transport>_destination_rate_limit: to a provider, or to the hosts of a route
  shaping::Rates rate_limit;
};

/// Beside those of any message; 0: none.
struct PseudoMessageLimits {
  std::uint32_t routing = 0;  // look-ups at once
  std::uint32_t workers = 0;  // connections at once
};

struct Options {
  Fairness fairness;                     // max_message_concurrency, scale_max_concurrency
  std::uint32_t routing_workers = 200;   // look-ups under way at trivial-rewrite
  std::uint32_t backlog_threshold = 10;  // connection_backlog_threshold
  // connection_least_gain: a connection is opened only for a job that would wait longer than this, and than it takes
  milliseconds least_gain{250};
  milliseconds backlog_time{3000};  // a backlog that is expected to last longer is too long as well
  // free rides fill a connection to this many thresholds; the rest waits unassigned: bounds the work when it
  // closes
  std::uint32_t ride_limit = 4;
  // a job waits this long for more recipients while some of its message are still being routed
  milliseconds forming_time{500};
  seconds backoff_min{60};  // of a failing destination, doubled per failure, with jitter
  seconds backoff_max{4000};
  seconds ceiling_time{600};  // a learned connection limit is believed this long
  // A host that broke under pipelining does without it so long; then it is tried again. A host that breaks again
  // within a day always will.
  seconds step_by_step_first{600}, step_by_step_again{3600};
  // The same for clear text where TLS broke and may be left out.
  seconds clear_text_first{600}, clear_text_again{3600};
  std::size_t kept_routes = 10'000;  // route sets kept for re-use without a job
  // Messages that may wait for the same hosts while others wait for room in the active set (active_share_limit); 0: any
  // number. Only where they wait for long: the hosts would take longer than share_time for them.
  std::size_t share_limit = 0;
  seconds share_time{300};  // the shortest retry interval: a parked message comes back after that
  /// defer_destinations: the rule's name if delivery to this name (a next hop, a domain, a host) or address (if it is a
  /// numeric one) is put off, else "". Asked when a destination or next hop is met, and again when what it said is
  /// older than rule_time. Must not wait.
  std::function<std::string(std::string_view name, std::string_view address)> deferral_rule;
  seconds rule_time{10};
  /// There are tenants (docs/tenants.md): they take turns above senders. Mail without a tenant counts as one tenant.
  bool tenants = false;
  /// The weight of a tenant that comes, 1 to 1000; empty: 100 for all. Must not wait: Scheduler::tenant_weight() is
  /// for what is known later.
  std::function<std::uint32_t(std::string_view tenant)> tenant_weight;
  /// How many recipients are served for one of the next less urgent class (urgency.h), while both wait; 2 to 100.
  std::uint32_t urgency_ratio = 10;
  /// The session class of a host, if it belongs to one: then a connection to it asks for a lease first
  /// (OpenConnection). Asked when a destination is met. Must not wait.
  struct SessionClass {
    std::uint32_t number = 0;
    std::string by_name;  // the class's name, if the host belongs to it by its name and not its address
  };
  std::function<std::optional<SessionClass>(std::string_view host, std::string_view address)> session_class;
  /// nullptr: nothing is shaped, nor limited by the time.
  std::shared_ptr<const ShapingOptions> shaping;
};

/// Which recipients of a message may share a transaction with one. rewritten: those that go out with the rewritten
/// sender, too. alone: none, for the sender is its own.
enum class Sharing : std::uint8_t { all, rewritten, alone };

struct RouteRecipient {  // ask trivial-rewrite
  MessageNumber message = 0;
  std::uint32_t ordinal = 0;
};
struct OpenConnection {
  ConnectionNumber connection = 0;
  ipc::Destination destination;
  std::string nexthop;
  std::string key;            // of the destination here
  std::uint32_t limit = 0;    // connections to it at once, over all hosts of a cluster
  bool step_by_step = false;  // it broke under pipelining
  bool clear_text = false;    // TLS with it broke, and may be left out
  /// It needs a lease first: session_granted() or session_refused() is awaited.
  std::optional<std::uint32_t> session_class = std::nullopt;
};
struct HandJob {  // into the connection's window
  ConnectionNumber connection = 0;
  JobNumber job = 0;
  MessageNumber message = 0;
  std::string transport;
  std::string nexthop;
  Ordinals ordinals;
  // there is another host for what this one does not take now: try_next_host()
  bool other_hosts = false;
  bool rewritten = false;  // by Sharing
  bool shaped = false;     // ipc::delivery::Job
  std::string provider = {};
};
struct CloseConnection {
  ConnectionNumber connection = 0;
  std::string transport;
};
/// What a job says of its destination.
enum class JobEnd : std::uint8_t {
  served,     // some recipient was accepted, or refused for good: it works
  put_off,    // it took nothing now
  cut_short,  // the connection ended before it answered
  own_fault,  // nothing: what went wrong is ours
};
struct DeferRecipients {  // no destination left, or in doubt after a lost connection
  MessageNumber message = 0;
  Ordinals ordinals;
  mail::DeliveryStatus status;
  std::string relay;       // Postfix's relay= word: the destination that said so, or "none"
  JobNumber job = 0;       // 0: it was never formed
  bool withdrawn = false;  // handed back after withdraw(), and not for any trouble
};
using Action = std::variant<RouteRecipient, OpenConnection, HandJob, CloseConnection, DeferRecipients>;

/// A destination as the choice of a connection sees it.
enum class DestinationClass : std::uint8_t {
  active,     // a connection has jobs
  idle,       // connections without jobs
  closed,     // none, but there was one
  unused,     // never met, or forgotten
  retry,      // failed, and may be tried again
  failing,    // failed, its retry time has not come
  suspended,  // by hand or by a rule
};
struct DestinationState {
  std::string key;
  ipc::Destination address;
  DestinationClass classification = DestinationClass::unused;
  std::string suspended;                       // why; empty: it is not
  std::uint32_t connections = 0, limit = 0;    // limit 0: none
  std::uint32_t elsewhere = 0;                 // connections of other hosts of the cluster
  std::uint64_t in_hand = 0, waiting = 0;      // jobs on its connections
  milliseconds paused{0};                      // until its rate delay allows the next delivery
  std::vector<LimitState> limits;              // of its provider, or of the routes that lead to it
  std::optional<std::uint32_t> session_class;  // a connection to it needs a lease of this
  bool in_line = false;                        // and it waits for one
  std::size_t class_line = 0;                  // destinations that wait for one of that class
  destdb::Facts facts;
};
/// Which rule of docs/design.md ("Choosing a connection") decides for a job.
enum class Choice : std::uint8_t {
  room,     // 1: an active connection with room
  idle,     // 3: an idle connection
  unused,   // 3: a new connection, to one of these at random
  closed,   // 3: … to the one closed longest ago
  retry,    // 3: … to one of the retry list at random
  fewest,   // 3: … a further one, to one of those with the fewest
  ride,     // 2: a free ride on an active connection
  wait,     // 2: until a worker or a connection is free
  nothing,  // 4: no destination works: deferred
};
struct Explanation {
  std::string suspended;  // the route or its transport is; else empty
  std::vector<std::vector<DestinationState>> levels;
  std::size_t level = 0;  // that the choice fell on; levels.size(): none
  Choice choice = Choice::nothing;
  std::vector<std::string> chosen;  // keys: one of these
  std::uint64_t pooled = 0;         // jobs of the same hosts that wait for a connection
  std::uint32_t free_workers = 0;   // of the transport
  bool transport_up = true;
  std::vector<LimitState> limits;  // that such a job has to pass
};

namespace scheduler {
struct Job;
struct Message;
struct Model;
}  // namespace scheduler

class Scheduler {
 public:
  /// limits: asked once for each transport's name that a route brings.
  Scheduler(Options options, std::function<TransportLimits(std::string_view)> limits, destdb::Table& destinations,
            Random& random);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Time never goes back for the steady clock; the wall clock is for what destdb remembers.
  void set_time(SteadyTime now, WallTime wall);

  // --- messages ---
  /// A message enters; its recipients want routes. May be called again for more recipients (slices
  /// of a big envelope).
  /// source: the sender; small messages of a sender with many here share their turns and workers (sources.cc). 0: no
  /// particular one. Of the first call for the message.
  /// tenant: its tenant, where there are tenants; sender_domain: its sender's, by which receivers tell senders apart.
  /// Both of the first call, too.
  void admit(MessageNumber message, const Ordinals& recipients, SourceNumber source = 0, std::string_view tenant = {},
             std::string_view sender_domain = {}, Urgency urgency = Urgency::normal, std::string_view signer = {});
  /// All that comes from this source, which must not be 0, counts as one message with these limits: recipient
  /// verification. Before its first admit().
  void pseudo_message(SourceNumber source, const PseudoMessageLimits& limits);
  /// The weight of a tenant, if it is here: 100 is the usual one.
  void tenant_weight(std::string_view tenant, std::uint32_t weight);
  /// trivial-rewrite answered. recipient: the address after the transport table's rules.
  void routed(MessageNumber message, std::uint32_t ordinal, const ipc::route::Resolved& answer,
              Sharing sharing = Sharing::all);
  /// There is no route; the caller deals with the recipient.
  void unroutable(MessageNumber message, std::uint32_t ordinal);
  /// The look-up was lost with its program: ask again. alone: with no other look-up under way.
  void route_lost(MessageNumber message, std::uint32_t ordinal, bool alone);
  /// Takes back every recipient that is neither at trivial-rewrite nor at a delivery program and
  /// returns them; the others end by their results, and come no more after a re-scheduling: they
  /// too are returned then, by DeferRecipients.
  Ordinals withdraw(MessageNumber message);
  /// The caller is done with the message: nothing of it may be left here.
  void forget(MessageNumber message);

  // --- connections ---
  void opened(ConnectionNumber connection, const ipc::delivery::Features& features);
  /// Also for a connection that could not be opened. Jobs in `unstarted` are scheduled again at
  /// once and without penalty (alone: see isolate()); other jobs in hand are deferred with the
  /// status. If the peer's words block the connection's source, what waits to be sent from it is routed again; the
  /// block is returned.
  std::optional<SourceBlock> closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
                                    const mail::DeliveryStatus& status, const std::vector<JobNumber>& unstarted);
  /// Its peer broke under pipelining: for some time it gets one command at a time. Call before closed().
  void out_of_step(ConnectionNumber connection);
  /// The lease that a connection asked for was given.
  void session_granted(ConnectionNumber connection);
  /// The lease was refused: the connection is gone, and its class is full until session_room(). Nothing counts as
  /// failed or tried.
  void session_refused(ConnectionNumber connection);
  void session_room(std::uint32_t session_class);
  /// Another session wants a place in the class: closes the connection that is idle for longest. False: none is idle.
  bool yield_session(std::uint32_t session_class);
  /// These recipients of a job have a result, and are to be tried at the next host of their route in this round: a
  /// new job takes them there. If there is no next host they are deferred with what this one said. Call before
  /// job_done().
  void try_next_host(JobNumber job, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  /// Its host takes recipients of one domain in a transaction, and these were of another: they go on at once in jobs of
  /// their own, and no more such jobs go to that host for a while. Otherwise as try_next_host().
  void one_domain_only(JobNumber job, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  /// Its host takes fewer recipients in a transaction, and took some: these go on at once by the same route. Nothing is
  /// learned. If the message is withdrawn or the program ends they are deferred with this. Call before job_done().
  void rest_at_once(JobNumber job, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  /// A job's result came, so long after its first command was sent. The caller keeps the results themselves.
  void job_done(JobNumber job, microseconds since_begun, JobEnd end);
  /// A recipient of a job in hand was refused or put off with these words. Mail of the kind that they complain of
  /// goes slower. Call before job_done().
  ComplaintVerdict complained(JobNumber job, const MailAddresses& of, const mail::DeliveryStatus& status);
  /// What shaping did since the last call.
  std::vector<ShapingNews> take_shaping_news();
  /// An administrator's limit for a provider or group that is in memory; a rate of 0 ends it. False: it is not.
  bool order_rate(std::string_view group, const shaping::Rates& rates);
  /// Forgets what was learned of a provider or group. Returns how many limits that were.
  std::size_t forget_limits(std::string_view group);
  /// What was learned of quotas' windows since the last call; last: before the end, when nothing goes any more.
  std::vector<Spent> take_spent(bool last);
  /// A record that was kept. False: it says nothing that still counts.
  bool load_spent(std::string_view key, std::string_view value);
  /// From Table::shared_rates(): more may go; another host learned something.
  void rate_ready(const std::string& key);
  void rate_heard(const std::string& key, std::string_view learned, milliseconds age);
  /// The provider that a job goes to; empty: to no known one.
  std::string_view provider_of(JobNumber job) const;
  /// All limits in memory that hold anything.
  void each_limit(const std::function<void(const LimitState&)>& see);
  /// Those that are of no group: of domains, sources and tenants.
  void each_set_limit(const std::function<void(const LimitState&)>& see);
  /// The job was in hand when its program died repeatedly: when it is scheduled again, it runs with
  /// no other job of its transport in hand. Call before closed().
  void isolate(JobNumber job);
  /// The same for every job of a message that was in hand at deaths before it came back from a retry log. Call after
  /// admit().
  void isolate_message(MessageNumber message);
  /// The source that a connection comes from; empty: none, or there is no such connection.
  const std::string& source_of(ConnectionNumber connection) const;
  std::uint64_t connections_of_source(std::string_view source) const;
  /// The source can be used no more, in all or for some receivers: what waits to be sent from it is routed again, so
  /// that another is chosen. Walks over all jobs.
  void reroute_source(std::string_view source);
  /// The transport's program cannot be reached: jobs wait. After up(true) they run.
  void transport_up(std::string_view transport, bool up);
  /// The transport stays down: every waiting job of it is deferred.
  void transport_failed(std::string_view transport, const mail::DeliveryStatus& status);
  /// The table's suspensions have changed: what is suspended now is deferred and its connections close, jobs in hand
  /// end; what was resumed is tried. Walks over all jobs and destinations.
  void suspensions_changed();
  /// The message was flushed: defer_transports does not hold it.
  void override_deferral(MessageNumber message);
  bool deferral_overridden(MessageNumber message) const;
  /// The facts of this destination were forgotten, by hand or because they were old: nothing is known of it but its
  /// open connections.
  void forgotten(std::string_view key);
  /// A message that waits for hosts that have more than their share of the active set, and are slow: the caller parks
  /// it (withdraws it and puts it off) if others wait for its place. nullopt: there is none.
  std::optional<MessageNumber> excess() const;
  /// More than its share waits for some hosts: excess() may come to name a message when time passes.
  bool crowded() const;

  // --- the other hosts of a cluster (lib/queue/destdb/sharing.h) ---
  /// A connection that was to be opened may not: the others have as many as the destination accepts. Its jobs are
  /// scheduled again at once, without penalty.
  void refused(ConnectionNumber connection);
  /// So many connections of other hosts count against its limit, until another number comes; this one may be outdated
  /// after a second, then one connection is tried.
  void elsewhere(std::string_view key, std::uint32_t connections);
  /// A connection that was refused may be tried now.
  void look_again(std::string_view key);
  /// Other hosts know this of the destination.
  void learned(std::string_view key, const destdb::Facts& facts);
  /// Others wait for connections to it: at most `keep` stay, the rest closes when its jobs in hand are done.
  void give_back(std::string_view key, std::uint32_t keep);

  /// An administrator's flush: destinations that wait for their next retry may be tried at once.
  /// What they have failed so far is remembered, so one probe goes first.
  void forgive();
  /// No more jobs are handed out (stop, upgrade).
  void drain();

  // --- time ---
  void tick();
  SteadyTime next_wake() const;

  // --- looking ---
  /// What would become of a first job of a message with this route now. The route set is in memory from then on.
  Explanation explain(const ipc::route::Resolved& answer, const MailOf& of = {});
  /// Every destination in memory: those with jobs or connections, and those of routes kept for re-use.
  void each_destination(const std::function<void(const DestinationState&)>& see) const;
  struct Troubled {
    std::vector<DestinationState> worst;
    std::size_t all = 0;
  };
  /// Destinations that failed last or are suspended: `most` of them, those that failed most often first. It looks at
  /// two fields of each destination in memory, and describes only those that it gives.
  Troubled troubled(std::size_t most) const;
  /// Keys of the destinations that next hops of this name lead to, as far as they are in memory.
  std::vector<std::string> destinations_of(std::string_view name) const;

  /// "", or what waits in a pool though its hosts may have a further connection, a worker is free, and to open one
  /// takes less than the wait. For tests: walks over all that waits.
  std::string needless_wait() const;

  /// In order. Valid until the next event.
  std::vector<Action> take_actions();
  /// The same without an allocation: what `into` held goes, its memory is used for the next actions.
  void take_actions(std::vector<Action>& into);

  struct Figures {
    std::uint64_t messages = 0, jobs = 0, connections = 0, waiting_jobs = 0, in_hand = 0, routing = 0;
    std::uint64_t connections_opened = 0, jobs_done = 0, rescheduled = 0, deferred = 0;
  };
  Figures figures() const;

 private:
  std::unique_ptr<scheduler::Model> model_;
};

}  // namespace pen::qmgr
