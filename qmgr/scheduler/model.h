#pragma once
/// What the scheduler knows: messages, jobs, route sets, clusters, destinations, connections.
/// Internal to the scheduler's .cc files.
///
/// Owns:    Model owns everything: messages and jobs in slabs, the rest by maps. What most messages have one of (a job
///          that waits in one cluster, then on one connection) lies within the message, next to what is used with it.
///          Job          points to its Message and RouteSet
///          RouteSet     (the next hop and where it leads) points to its Cluster
///          Cluster      equal preference levels: what connections can be shared between next hops by;
///                       its Members point to Destinations
///          Connection   points to its Destination
/// Where a job can be (Job::Place): forming, pooled in its cluster, on a connection's backlog, handed out, or waiting
/// to run alone.
#include <algorithm>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/check.h"
#include "qmgr/scheduler/first_inline.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/number_table.h"
#include "qmgr/scheduler/ordinals.h"
#include "qmgr/scheduler/prefetch.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/slab.h"

namespace pen::qmgr::scheduler {

inline constexpr seconds kLeastStated{5};             // who says "in 1 second" means soon
inline constexpr seconds kHeardFor{1};                // what is known of other hosts' connections
inline constexpr std::uint32_t kNoLimit = 1'000'000;  // of connections to one destination

struct Message;
struct Party;
struct Transport;
struct RouteSet;
struct Cluster;
struct Destination;
struct Connection;
struct Claim;
struct Job;

/// What jobs without a connection wait for.
enum class Waits : std::uint8_t {
  worker,  // any that is free
  probe,   // a worker for a host of which it is not known that it works (probes.cc)
  limits   // a connection of their destinations, which are at their limits
};

/// The jobs of one party that wait in one cluster for a connection.
struct PoolShare {
  PoolShare(Cluster* c, Party* p) : cluster(c), party(p) {}
  Cluster* cluster;
  Party* party;
  Claim* claim = nullptr;  // of the party, to workers of the cluster's transport; none if it waits for limits
  List<Job> jobs;
  std::uint32_t count = 0;
  Waits waits = Waits::worker;
  SteadyTime since{};
  Node<PoolShare> round{this};    // in Cluster::round: free rides go round the messages
  Node<PoolShare> waiting{this};  // in Claim::shares, or in Cluster::full
};

/// One party's wait for workers of one transport, or for those of its probes.
struct Claim {
  Claim(Party* o, Transport* t, bool p) : party(o), transport(t), probe(p) {}
  Party* party;
  Transport* transport;
  WorkerQueue<Claim>::Entry entry{this};
  List<PoolShare> shares;
  bool probe;
  WorkerQueue<Claim>& queue() const;
};

/// Of a look-up's answer, whatever the order within its levels; with a key that nobody outside knows.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Fingerprint&) const = default;
};

/// What has this fingerprint, found by its low half or, if others have that too, by one of the numbers that follow.
/// number: in: anything; out: what it is found by, or what is free.
template <class T>
T* find_by(const NumberTable<T>& table, const Fingerprint& f, std::uint64_t& number) {
  number = f.low;
  T* known = table.find(number);
  while (known != nullptr && known->fingerprint != f) known = table.find(++number);
  return known;
}

/// One party's jobs on one connection.
struct ConnectionShare {
  explicit ConnectionShare(Party* p) : party(p) {}
  Party* party;
  std::size_t jobs = 0;  // waiting and handed
  List<Job> waiting;
  Node<ConnectionShare> round{this};
};

struct Job {
  enum class Place : std::uint8_t { forming, pooled, backlog, handed, alone };
  explicit Job(std::uint32_t ordinal) : ordinals(ordinal) {}
  JobNumber number = 0;
  Message* message = nullptr;
  RouteSet* route = nullptr;
  JobOrdinals ordinals;
  SteadyTime expiry = kNever;
  SteadyTime formed{};
  Place place = Place::forming;
  bool isolated = false;
  bool several = false;             // its recipients have different next hops
  std::uint16_t sessions = 0;       // hosts that did not take its recipients in this round
  const void* joined_by = nullptr;  // its key in Message::joinable; nullptr: it is not there
  PoolShare* share = nullptr;
  Connection* connection = nullptr;
  Node<Job> in_message{this};
  Node<Job> in_line{this};     // forming list of the message, pool share, or a connection's share
  Node<Job> in_forming{this};  // the list of all forming jobs, oldest first
};

struct Transport {
  std::string name;
  TransportLimits limits;
  bool up = true;
  std::uint32_t connections = 0;  // open, opening and closing ones
  std::uint32_t in_hand = 0;      // jobs handed out
  List<Connection> idle;          // longest idle first
  std::size_t idle_count = 0;
  List<Connection> by_age;  // oldest first
  List<Connection> all;
  WorkerQueue<Claim> waiting;
  WorkerQueue<Claim> probe_waiting;
  List<Connection> probes;  // being opened to hosts that are not known to work, oldest first
  std::uint32_t probing = 0;
  std::size_t wanted_probes = 0;       // PoolShares that wait for one
  SteadyTime look_at_probes = kNever;  // when the patience with one of them may end
  std::deque<Job*> alone;              // jobs that must run with no other in hand
  Job* solo = nullptr;                 // the one of them whose turn it is
  bool dirty = false;                  // workers may have become free
  SteadyTime solo_until = kNever;      // if it has no connection by then it is deferred
  bool resumes = false;                // nothing runs alone any more: connections wait to be given jobs
  /// A job runs alone, or waits for those in hand to end: no other job moves.
  bool exclusive() const { return solo != nullptr || !alone.empty(); }
  /// Workers that a job could get: idle ones count, they can be closed.
  std::uint32_t free() const {
    if (limits.workers == 0) return 1'000'000;
    const auto busy = connections - static_cast<std::uint32_t>(idle_count);
    return busy >= limits.workers ? 0 : limits.workers - busy;
  }
};

inline WorkerQueue<Claim>& Claim::queue() const { return probe ? transport->probe_waiting : transport->waiting; }

struct Member {
  Member(Cluster* c, Destination* d, std::size_t l) : cluster(c), destination(d), level(l) {}
  Cluster* cluster;
  Destination* destination;
  std::size_t level;
  Node<Member> hungry{this};   // in Destination::hungry while jobs are pooled in the cluster
  Node<Member> starved{this};  // in Destination::starved while some of them wait for limits
};

struct Cluster {
  Fingerprint fingerprint;
  std::uint64_t number = 0;  // the fingerprint's low half, or the next one that was free
  std::uint64_t slot = 0;    // in Model::clusters
  Transport* transport = nullptr;
  std::vector<std::vector<std::unique_ptr<Member>>> levels;
  /// More than one destination.
  bool has_several() const { return levels.size() > 1 || levels.front().size() > 1; }
  List<PoolShare> round;        // one of each party that waits here
  std::size_t share_count = 0;  // messages that wait here; of shared parties, jobs
  List<PoolShare> full;         // those that wait for limits
  std::size_t awake = 0;        // those that wait for a worker
  Node<Cluster> left{this};     // in Model::left: one that was awake went; others may have what it did not take
  std::size_t pooled = 0;
  SteadyTime looked{};               // when a job last looked for a connection
  std::uint64_t left_to_others = 0;  // the Model::event in which one did not take what there was
  std::size_t references = 0;
  Node<Cluster> crowded{this};  // in Model::crowded while more than share_limit messages wait here
};

/// A class of hosts whose sessions are limited, as far as it is known here: who wants one, who could give one up.
struct SessionClass {
  std::uint32_t number = 0;
  bool full = false;          // one was refused; until session_room()
  std::uint32_t asking = 0;   // connections that wait for their lease
  List<Destination> waiting;  // want a connection, first come first served
  std::size_t waiting_count = 0;
  Destination* turn = nullptr;  // may open one although others wait
  List<Connection> idle;        // longest idle first
  std::size_t closing = 0;      // idle ones closed for those that wait
  bool dirty = false;
};

struct RouteSet {
  Fingerprint fingerprint;
  std::uint64_t number = 0;  // the fingerprint's low half, or the next one that was free
  std::uint64_t slot = 0;    // in Model::routes
  Cluster* cluster = nullptr;
  std::string nexthop;
  std::size_t references = 0;  // jobs
  bool parked = false;         // in Model::spare_routes
  std::string suspended;       // why nothing goes to this next hop; empty: it may
  SteadyTime judged{};         // when that was found
};

/// What so many connections to a destination bring (paying.cc).
struct Yield {
  SteadyTime since{};             // of the measure under way
  std::uint32_t connections = 0;  // busy since then
  std::uint32_t results = 0;      // since then
  double rate = 0;                // results per second, of the last measure that nothing was tried in
  std::uint32_t tried = 0;        // connections that a trial allows; 0: there is none
  std::uint32_t compared = 0;     // those that rate was measured with
  std::uint32_t before = 0;       // what was known to pay
};

struct Destination {
  std::string key;
  ipc::Destination address;
  Transport* transport = nullptr;
  destdb::Facts facts;
  bool known = false;                    // a record exists in destdb
  std::string suspended;                 // why nothing goes there; empty: it may
  SteadyTime judged{};                   // when that was found
  std::vector<Connection*> connections;  // that can take jobs, oldest first
  std::uint32_t holding = 0;             // connections not yet closed, those that take no more jobs included
  std::size_t waiting = 0;               // jobs on their backlogs that were not handed out
  std::uint32_t handed = 0;              // jobs in hand
  // Of late (windows.cc): how long a job took that found its connection's flow dry, what of that was the path's, and
  // whether two results of a flow have told the one from the other.
  microseconds dry_time{0}, path{0};
  bool told_apart = false;
  Yield yield;
  std::uint32_t allowance = 0;            // connections while it is new or just back; 0: no matter
  std::uint32_t elsewhere = 0;            // connections of other hosts
  SteadyTime heard_until{};               // until when that is taken for true
  SteadyTime refused_until{};             // others had the last one
  SteadyTime paused_until{};              // rate delay; in Model::paused until then
  SessionClass* session_class = nullptr;  // nullptr: connections need no lease
  Node<Destination> in_class_line{this};
  List<Member> hungry;
  List<Member> starved;
  std::size_t references = 0;  // clusters
};

/// Who takes turns with others, and whose workers are counted: a message, or all messages of one source (sources.cc).
struct Party {
  std::uint64_t seq = 0;      // of its first wait for a connection: answers overtake each other; 0: it has not waited
  std::uint32_t routing = 0;  // look-ups under way
  std::uint32_t concurrency = 0;        // connections that hold jobs of it
  std::uint32_t most_workers = kNoCap;  // of one transport
  bool shared = false;
  List<Message> unrouted;  // those with recipients that want a route, in turn
  WorkerQueue<Party>::Entry routing_entry{this};
  FirstInline<Cluster, PoolShare> pooled;
  FirstInline<Connection, ConnectionShare> carried;
  std::optional<Claim> claim;  // of the first transport that it waited for
  using Claims = std::vector<std::unique_ptr<Claim>>;
  std::unique_ptr<Claims> more_claims;  // of others, in order; nullptr: none
  template <class F>
  void each_claim(F&& f) {
    if (claim) f(*claim);
    if (more_claims)
      for (auto& c : *more_claims) f(*c);
  }
};

/// Where messages come from: a sender, or what asks for verification.
struct Source {
  std::uint64_t number = 0;
  std::uint64_t slot = 0;  // in Model::sources
  std::size_t messages = 0;
  bool pseudo_message = false;   // all its messages are one party, from the first on
  std::unique_ptr<Party> party;  // of those that are not parties of their own
};

struct Message {
  MessageNumber number = 0;
  std::uint64_t slot = 0;  // in Model::messages
  bool withdrawn = false;
  bool isolated = false;      // every job of it runs alone
  bool flushed = false;       // defer_transports does not hold it
  bool one_domain = false;    // a host did not take several of its domains in one transaction
  std::uint32_t routing = 0;  // look-ups under way
  std::uint32_t job_count = 0;
  Unrouted unrouted;
  Node<Message> in_unrouted{this};  // in Party::unrouted
  List<Job> jobs;
  FirstInline<void, Job*> joinable;  // jobs that can take more recipients, by join_key()
  List<Job> forming;
  Source* source = nullptr;
  Party* party = nullptr;
  std::optional<Party> own;
};

struct Connection {
  enum class State : std::uint8_t { opening, open, retiring };
  ConnectionNumber number = 0;  // rises: a later connection has a higher number
  Destination* destination = nullptr;
  State state = State::opening;
  std::uint32_t window = 1;       // jobs that its program takes at once
  microseconds round_trip{0};     // of the handshake: somebody nearer than the peer may have answered
  SteadyTime last_done = kNever;  // the last result came; kNever: none has
  SteadyTime flows_since{};       // its peer works on the first of those in hand since then, at the latest
  SteadyTime opened_at{};         // until it is open: when it was begun
  SteadyTime idle_since{};
  std::size_t waiting = 0;
  std::vector<Job*> handed;
  std::uint64_t done = 0;
  std::uint64_t served = 0;  // of them, those of which it took or refused something for good
  bool cut_short = false;    // it ended within a transaction
  std::uint64_t quota = 0;   // jobs after which it is closed, before the peer does; 0: none
  Cluster* last_cluster = nullptr;
  List<ConnectionShare> round;
  bool from_pool = true;  // where its last job came from, if there was a choice
  bool close_sent = false;
  bool asks = false;     // for a lease of its session class
  bool in_turn = false;  // and was first in line for it
  Node<Connection> in_probes{this};
  Node<Connection> in_idle{this};
  Node<Connection> in_class_idle{this};
  Node<Connection> in_age{this};
  Node<Connection> in_all{this};
  std::size_t jobs() const { return waiting + handed.size(); }
  bool spent() const { return quota > 0 && done + handed.size() >= quota; }
};

struct Model {
  Model(Options o, std::function<TransportLimits(std::string_view)> l, destdb::Table& d, Random& r)
      : options(o), limits(std::move(l)), table(d), random(r), fingerprint_key(r.next()) {}

  // routing.cc
  void pump_routing();
  void wants_routes(Message& m);
  void routing_ended(Message& m);
  void add_to_job(Message& m, std::uint32_t ordinal, const ipc::route::Resolved& answer);
  /// No recipient joins it any more.
  void end_joining(Job& j);
  void formed(Job& j);
  void reroute(Job& j);
  /// What recipients of a message share a job by: the route set, or the cluster where next hops may differ.
  const void* join_key(const Message& m, const RouteSet& r) const;

  // clusters.cc
  Transport& transport(std::string_view name);
  RouteSet& route_set(const ipc::route::Resolved& answer);
  struct Fingerprints {
    Fingerprint route, cluster;
  };
  Fingerprints fingerprints(const ipc::route::Resolved& answer, const Transport& t);
  Cluster& cluster(const ipc::route::Resolved& answer, const Fingerprint& fingerprint, Transport& t);
  /// One without hosts, by a number that find_by() gave.
  Cluster& make_cluster(const Fingerprint& fingerprint, std::uint64_t number, Transport& t);
  void reference(RouteSet& r);
  void release(RouteSet& r);
  void drop_route(RouteSet& r);
  Destination& destination(const ipc::Destination& address, const std::string& key, Transport& t);
  void remember(Destination& d);
  bool dead(const Destination& d) const;
  std::uint32_t connection_limit(const Destination& d) const;
  /// What that comes to if it bears one connection more with each job.
  std::uint32_t limit_in_time(const Destination& d) const;
  /// How long a destination is left alone after so many failures in a row before this one.
  microseconds back_off(std::uint32_t failures, ipc::delivery::Trouble trouble, std::optional<seconds> stated);
  void failed(Destination& d, ipc::delivery::Trouble trouble, const mail::DeliveryStatus& status);

  // next_host.cc
  /// What a host does not take of the job may be tried at another one in this round.
  bool may_go_on(const Job& j, const Destination& from) const;
  void go_on(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  void schedule_gone_on();
  /// The route with those hosts last that took nothing lately; itself if there are none.
  RouteSet& in_order(RouteSet& r);
  enum class Change : std::uint8_t { without = 1, last };
  /// The route set without these hosts, or with them on a level behind all others. One must be left.
  RouteSet& changed(RouteSet& r, std::span<Destination* const> hosts, Change change);
  Cluster& changed(const Cluster& from, std::span<Destination* const> hosts, Change change,
                   const Fingerprint& fingerprint);
  /// It took nothing of a transaction.
  void took_nothing(Destination& d);
  void took_something(Destination& d);
  /// Nothing was served since it broke off a transaction, and it did so again; none of its connections works.
  bool breaks_again(const Destination& d) const;
  bool asked_last(const Destination& d) const { return d.facts.asked_last_until > wall && d.facts.used >= forgiven; }
  /// asked_last_until or one_domain_until has changed.
  void note_order(const Destination& d);
  void split_domains(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);

  // elsewhere.cc
  /// It has as many connections as it bears, those of other hosts counted.
  bool full(const Destination& d) const;
  void give_back(Destination& d, std::uint32_t keep);

  // suspension.cc
  void judge(RouteSet& r);
  void judge(Destination& d);
  /// Asks the rule again of the route and its destinations when its word is old; acts on what changed.
  void judge_again(RouteSet& r);
  void suspend(Destination& d);
  /// Why nothing goes to one of these names or the address; empty: it may.
  std::string verdict(const std::vector<std::string>& names, std::string_view rule_name,
                      std::string_view rule_address) const;
  /// The same for a recipient's domain.
  std::string verdict_on_recipient(std::string_view recipient) const;

  // inspect.cc
  DestinationState state_of(const Destination& d) const;
  Explanation explain(RouteSet& r) const;

  // sources.cc
  /// The source's record, made if it is new; nullptr for 0.
  Source* source(SourceNumber number);
  std::unique_ptr<Party> shared_party();
  void join(Message& m, SourceNumber number, std::size_t recipients);
  void leave(Message& m);
  void limit(Party& p, const PseudoMessageLimits& its);

  // probes.cc
  /// Nothing says that it works: it never accepted a connection, or has failed since.
  static bool unproven(const Destination& d);
  /// How many connections may be on the way to unproven destinations while others want workers.
  std::uint32_t probe_share(const Transport& t) const;
  /// How many more may begin now.
  std::uint32_t free_probes(const Transport& t) const;
  microseconds patience(const Destination& d) const;
  void probe_begins(Connection& c);
  void probe_ended(Connection& c);
  /// Gives up those that have had no answer for longer than our patience, if others want their workers.
  void abandon_probes(Transport& t);
  /// The transport with more messages that wait for probes than share_limit, for some time already.
  const Transport* crowded_with_unproven() const;

  // share.cc
  /// Its connections hold as many jobs as it may have of the active set: what comes now waits where it can be parked.
  bool holds_its_share(const Destination& d) const {
    return options.share_limit != 0 && d.transport->solo == nullptr && d.waiting + d.handed >= options.share_limit &&
           !may_have_more(d);
  }
  /// It holds its share, and takes what it is given fast enough for another one.
  bool may_have_more(const Destination& d) const;
  void note_share(Cluster& c);
  /// The messages that wait for it will wait for long.
  bool drains_slowly(const Cluster& c) const;

  // rate_delay.cc
  /// The destination is one whose deliveries keep a distance.
  static bool keeps_pace(const Destination& d) { return d.transport->limits.rate_delay.count() > 0; }
  /// No delivery may begin now.
  bool must_pause(const Destination& d) const { return keeps_pace(d) && (d.handed > 0 || d.paused_until > now); }
  /// A delivery ended, whatever its result.
  void pause(Destination& d);
  void end_pauses();
  /// Forgets a destination that nothing refers to; one that pauses later.
  void drop_if_unused(Destination& d);

  // session_classes.cc
  void enter_class(Destination& d);
  /// Another connection to it may ask for a lease.
  bool session_possible(const Destination& d) const;
  void wait_for_session(Destination& d, bool first = false);
  /// The destinations of a level that only their class keeps from another connection stand in line.
  void wait_for_session(const std::vector<std::unique_ptr<Member>>& level);
  void leave_class_line(Destination& d);
  /// Jobs wait that could not get a connection to it.
  bool wants_more(Destination& d);
  void ask_for_session(Connection& c);
  void session_answered(Connection& c);
  void session_refused(Connection& c);
  bool close_idle_of(SessionClass& c);
  void serve_classes();
  void mark_class(SessionClass& c);

  // ceilings.cc
  /// How many messages a connection opened now may carry; 0: any number.
  std::uint64_t quota_of(Destination& d);
  /// The peer closed a connection by itself after so many.
  void learn_quota(Destination& d, std::uint64_t done);
  void learn_clear_text(Destination& d);
  /// A password is never sent where the administrator counted on TLS, so with credentials it is not left out.
  static bool may_go_clear(const Destination& d) {
    return d.address.tls.level == ipc::TlsLevel::may && d.address.credentials.empty();
  }
  /// A job of the connection is done: how long that took its peer, and what the connection bears.
  void measured(Connection& c, microseconds since_begun);
  /// So much slower than the best of its level that it had better be left to when that is full.
  static bool slow(const Destination& d, microseconds best);
  static bool much_longer(microseconds time, microseconds best);
  /// The shortest service time in the level, as far as it was measured lately; 0: only one host works.
  microseconds best_service_time(const std::vector<std::unique_ptr<Member>>& level) const;
  bool measured_lately(const Destination& d) const;
  void retire_spent();

  // choose.cc
  /// What try_level() carries out.
  struct Chosen {
    Choice rule = Choice::nothing;
    Connection* connection = nullptr;      // room, idle, ride
    std::vector<Destination*> candidates;  // for a new connection: one of them
    Waits waits = Waits::worker;           // if the rule is to wait
    bool to_others = false;                // and there is something, but others are sooner
  };
  /// alone: for the job that runs alone, which the limits that keep the peace do not hold up.
  Chosen choose(const Cluster& c, std::size_t level, std::uint64_t concurrency, bool alone) const;
  enum class Outcome : std::uint8_t { assigned, pooled, dead };
  /// Finds a place for a job that has none. from_pool: it came from the head of its pool share.
  bool schedule(Job& j, bool from_pool = false);
  Outcome try_level(Job& j, std::size_t level, bool from_pool);
  /// Of the cluster's level, the one with the fewest jobs of those that would hand out another one now; nullptr:
  /// there is none.
  Connection* with_room(const std::vector<std::unique_ptr<Member>>& level) const;
  Connection* pick_ride(const std::vector<std::unique_ptr<Member>>& level, const Connection& newest) const;
  /// best: destinations that are slow beside it are left out; 0: none is.
  Chosen choose(const Cluster& c, std::size_t level, std::uint64_t concurrency, bool alone, microseconds best) const;
  void pick_new(const std::vector<std::unique_ptr<Member>>& level, microseconds best, bool may_probe,
                Chosen& into) const;
  /// Of destinations that a connection may be opened to, those go of which others would have the job done sooner.
  void drop_later(const std::vector<std::unique_ptr<Member>>& level, std::vector<Destination*>& those) const;
  std::size_t usable_level(const Cluster& c) const;
  void defer_dead(Job& j);
  void defer(Job& j, const mail::DeliveryStatus& status, std::string relay);

  // windows.cc
  /// Full enough that the next job had better open another connection.
  bool backlogged(const Connection& c) const;
  /// What a job may wait for on this connection before another connection pays.
  microseconds worth_waiting(const Connection& c) const;
  /// What a job took its peer: the path's share is taken off, and learned.
  microseconds service_time(Connection& c, microseconds since_begun);
  /// What the path to its peer takes there and back.
  static microseconds path(const Connection& c) { return std::max(c.round_trip, c.destination->path); }
  /// How many jobs it should have in hand, so that its peer never waits for the next one.
  std::size_t fitting(const Connection& c) const;
  /// Jobs that wait with those in hand, and the connections that there may be for them.
  struct Share {
    std::size_t jobs = 0, connections = 0, hosts = 0;
  };
  Share left_to_share(const Connection& c) const;
  /// It takes the next job now.
  bool may_take(const Connection& c) const;
  /// Jobs of its backlog that had better have another connection look for one.
  void spread(Connection& c);

  // paying.cc
  /// Connections that pay, as far as that is known; while something else is tried, that. 0: any number.
  static std::uint32_t paying_limit(const Destination& d);
  /// A result came from it, and so many jobs wait that it could have.
  void learn_what_pays(Destination& d, std::size_t number);
  void try_other(Destination& d, std::uint32_t n, std::size_t number);
  void settle_paying(Destination& d, std::uint32_t paying);

  // finish.cc
  /// What a job takes its peer; 0: that was not measured lately.
  microseconds expected(const Destination& d) const;
  static microseconds path(const Destination& d);
  /// When its peer could begin with a further job that takes so long.
  microseconds free_in(const Connection& c, microseconds each) const;
  /// When a further job would be done on it, or on a new connection to it; 0: nobody knows.
  microseconds ends_in(const Connection& c) const;
  microseconds ends_in(const Destination& d) const;
  /// Until then the busy connections of the level, but for one, and new ones to these destinations could do so many
  /// further jobs.
  bool sooner_by_others(const std::vector<std::unique_ptr<Member>>& level, microseconds end, std::size_t number,
                        const Connection* without, std::span<Destination* const> openable) const;
  /// Where its worker would do more: a host of the same level that a connection may be opened to. nullptr: nowhere.
  Destination* worker_is_better_at(const Connection& c) const;
  /// It closes, and its worker takes the next job there.
  void move_worker(Connection& c, Destination& to);
  /// The others would be through with all that waits in the cluster, and so many jobs more, before it had done the
  /// next.
  bool leaves_to_others(const Connection& c, const Cluster& cluster, std::size_t further) const;

  // pool.cc
  void pool(Job& j, Waits waits, bool at_front);
  void wait_for(PoolShare& s, Waits waits, bool at_front = false);
  void end_wait(PoolShare& s);
  void unpool(Job& j);
  /// It may bear a connection more: the next of those that wait for that looks for itself.
  void unblock(Destination& d);
  /// The same for each destination of a cluster, where a connection may be opened.
  void unblock(Cluster& c);
  /// It works, and neither limits nor a pause keep a connection to it from being opened now.
  bool may_open(const Destination& d) const;
  /// One of those that wait for limits waits for a worker from now on, unless another does so already.
  bool wake(Cluster& c);
  /// The job that it took into its backlog; nullptr: there is none for it.
  Job* pull(Connection& c);
  Job* steal(Connection& c);
  void pump_workers();
  void recheck(Destination& d);
  Claim& claim(Party& p, Transport& t, bool probe);

  // connections.cc
  Connection& open(Destination& d, const Job& cause);
  void assign(Job& j, Connection& c);  // attach() and hand_out()
  void attach(Job& j, Connection& c);
  void unassign(Job& j);
  void hand_out(Connection& c);
  void hand(Connection& c, Job& j);
  /// The next job that is to run alone begins if nothing is in hand; the one that has begun looks again for a
  /// connection.
  void run_alone(Transport& t);
  /// Closes a connection for it; with nothing else in hand each may go. False: none is left.
  bool make_room_for_solo(Transport& t);
  /// The connections that hold the leases it wants close: none of them may do anything until it ran.
  void free_leases_for(const Job& solo);
  /// Defers it when its patience has ended and it has no connection that it may use.
  void give_up_solo(Transport& t);
  /// A job that ran alone, or was to, has gone.
  void alone_ended(Transport& t);
  /// What lies ready on connections since the last of them ended is handed out.
  void resume(Transport& t);
  void set_idle(Connection& c);
  void unset_idle(Connection& c);
  void retire(Connection& c);
  void send_close(Connection& c);
  void close_one_idle(Transport& t);
  void closed(Connection& c, bool was_opened, ipc::delivery::Trouble trouble, const mail::DeliveryStatus& status,
              const std::vector<JobNumber>& unstarted);
  void erase(Connection& c);
  void concurrency_changed(Party& p, int by);
  void drop(Job& j);
  void settle();  // after every event: routing and worker pumps

  Options options;
  std::function<TransportLimits(std::string_view)> limits;
  destdb::Table& table;
  Random& random;
  SteadyTime now{};
  WallTime wall{};
  WallTime forgiven{};  // failures noted before this keep nobody from trying; see forgive()
  bool draining = false;
  std::vector<Action> actions;

  std::uint64_t next_seq = 1, next_connection = 1;
  std::unordered_map<std::string, std::unique_ptr<Transport>> transports;
  std::vector<Transport*> dirty;
  std::map<std::uint32_t, std::unique_ptr<SessionClass>> session_classes;  // outlive their destinations
  std::vector<SessionClass*> dirty_classes;
  /// A shared party that had a turn comes after all that wait: as one message that came now.
  template <class T>
  void to_the_end(WorkerQueue<T>& queue, typename WorkerQueue<T>::Entry& entry) {
    queue.remove(entry);
    entry.seq = next_seq++;
    queue.add(entry);
  }
  std::unordered_map<std::string, std::unique_ptr<Destination>> destinations;
  // Their names would be long: all the names of their destinations.
  Slab<Cluster> clusters;
  NumberTable<Cluster> cluster_numbers;  // by Cluster::number
  Slab<RouteSet> routes;
  NumberTable<RouteSet> route_numbers;  // by RouteSet::number
  std::uint64_t fingerprint_key = 0;
  std::string scratch;
  std::deque<RouteSet*> spare_routes;
  Slab<Message> messages;
  NumberTable<Message> message_numbers;
  Slab<Source> sources;
  NumberTable<Source> source_numbers;
  Slab<Job> jobs;
  Message& message(MessageNumber number) {
    Message* const m = message_numbers.find(number);
    PEN_CHECK(m != nullptr, "an event for a message that is not here");
    return *m;
  }
  std::unordered_map<ConnectionNumber, std::unique_ptr<Connection>> connections;

  WorkerQueue<Party> routing_queue;
  std::uint64_t routing = 0;
  std::deque<std::pair<MessageNumber, std::uint32_t>> route_alone;
  bool routing_solo = false;
  List<Job> forming;               // oldest first
  std::vector<JobNumber> gone_on;  // jobs for the next host, to be scheduled
  WallTime takes_nothing_until{};  // the latest asked_last_until
  WallTime one_domain_until{};     // the latest of that name
  List<Cluster> crowded;
  List<Cluster> left;
  std::uint64_t event = 1;              // rises with each event, and when a connection goes within one
  std::vector<ConnectionNumber> spent;  // have had all the messages that their peer takes
  std::map<std::pair<SteadyTime, std::string>, Destination*> paused;  // by end and key
  Scheduler::Figures figures;

  void mark_dirty(Transport& t) {
    if (t.dirty) return;
    t.dirty = true;
    dirty.push_back(&t);
  }
};

}  // namespace pen::qmgr::scheduler
