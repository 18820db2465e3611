#pragma once
/// What moves the jobs: Model has the messages, jobs and connections, and asks the policies where each job goes.
/// Internal to the scheduler's .cc files.
///
/// Nouns:   each has a header: message, job, party, transport, cluster (with the route set), destination, connection.
///          Job          points to its Message and RouteSet
///          RouteSet     (the next hop and where it leads) points to its Cluster
///          Cluster      equal preference levels: what connections can be shared between next hops by;
///                       its Members point to Destinations
///          Connection   points to its Destination
/// Parts:   each has a header, state of its own and references to those that it asks. A part moves no job: what follows
///          from its answers is done here.
/// Files:   routing.cc, place.cc (schedule), pump.cc (what takes from the pool), connections.cc, alone.cc,
///          next_host.cc, suspend.cc, leases.cc, elsewhere.cc, inspect.cc.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "qmgr/scheduler/choose.h"
#include "qmgr/scheduler/paying.h"
#include "qmgr/scheduler/pool.h"
#include "qmgr/scheduler/prefetch.h"
#include "qmgr/scheduler/probes.h"
#include "qmgr/scheduler/routes.h"
#include "qmgr/scheduler/shaping.h"
#include "qmgr/scheduler/sources.h"
#include "qmgr/scheduler/tenants.h"

namespace pen::qmgr::scheduler {

inline constexpr seconds kHeardFor{1};  // what is known of other hosts' connections

struct Model {
  Model(Options o, Routes::LimitsOf limits_of, destdb::Table& d, Random& r);

  // --- messages and jobs ---
  Message& message(MessageNumber number) {
    Message* const m = message_numbers.find(number);
    PEN_CHECK(m != nullptr, "an event for a message that is not here");
    return *m;
  }
  /// The tenant holds less, or weighs more: lines where it stood aside are looked at.
  void may_have_more(Tenant& tenant);
  void wants_routes(Message& m);
  void routing_ended(Message& m);
  void add_to_job(Message& m, std::uint32_t ordinal, const ipc::route::Resolved& answer, Sharing sharing);
  /// The route set of an answer, with what the rule says of it by now.
  RouteSet& route_set(const ipc::route::Resolved& answer);
  void reroute(Job& j);
  /// What waits and would be sent from there is routed again.
  void reroute_source(std::string_view source);
  /// Others wait in the cluster already, for a worker, for limits or for connections that they were left to: a new job
  /// stands behind them. There is nothing to look for, and looking walks over every connection; whichever has room
  /// takes from the pool.
  static bool stands_behind(const Cluster& c) {
    const Transport& t = *c.transport;
    return c.pooled > 0 && t.solo == nullptr && (t.free() == 0 || !c.full.empty());
  }
  /// Finds a place for a job that has none. from_pool: it came from the head of its pool share.
  bool schedule(Job& j, bool from_pool = false);
  void go_on(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  void split_domains(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  void go_again(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  void defer(Job& j, const mail::DeliveryStatus& status, std::string relay);
  void drop(Job& j);

  // --- connections ---
  void hand_out(Connection& c);
  void set_idle(Connection& c);
  /// Jobs of its backlog that would be better off on another connection look for one.
  void spread(Connection& c);
  /// It closes, and its worker takes the next job there.
  void move_worker(Connection& c, Destination& to);
  void retire(Connection& c);
  void takes_no_more(Connection& c);
  std::optional<SourceBlock> closed(Connection& c, bool was_opened, ipc::delivery::Trouble trouble,
                                    const mail::DeliveryStatus& status, const std::vector<JobNumber>& unstarted);
  void erase(Connection& c);
  /// erase(), of one that we have closed.
  void left(Connection& c);
  /// Takes the waiting jobs off it; they are to be scheduled again.
  std::vector<Job*> take_waiting(Connection& c);
  void session_refused(Connection& c);
  bool close_idle_of(SessionClass& c);

  // --- destinations ---
  /// The destination may accept a connection more: the next job that waits for that looks for itself.
  void unblock(Destination& d);
  void unblock(Group& provider);
  /// The destination may have a connection more: what was left to others (pool.h) is looked at again as well.
  void limit_rose(Destination& d);
  /// The destination works now: jobs that waited for a probe wait for a connection to it.
  void proven(Destination& d);
  /// After a failure: jobs that have no working destination left are deferred, others look again.
  void recheck(Destination& d);
  void suspend(Destination& d);
  void give_back(Destination& d, std::uint32_t keep);
  /// All workers are taken, and something more urgent than its next job waits for one.
  bool yields(const Connection& c) const;
  /// Then it closes, and what is urgent gets the worker before its own jobs look for another.
  void yield(Connection& c);

  // --- time ---
  void tick();
  void settle();  // after every event: routing and worker pumps

  const Options options;
  destdb::Table& table;
  Random& random;
  Clock clock;
  bool draining = false;
  std::vector<Action> actions;
  Scheduler::Figures figures;
  std::uint64_t turn = 1;  // of a place in a line
  TransportsToServe to_serve;

  Ceilings ceilings{options, clock};
  BackOff back_off{options, clock, random, ceilings};
  Memory memory{table, clock};
  Speed speed{options, clock, back_off};
  RateDelay rate_delay{clock};
  SessionClasses session_classes{options};
  Suspensions suspensions{options, table, clock};
  HostOrder host_order{options, clock, back_off, memory};
  Probes probes{clock, to_serve};
  Shaping shaping{options, clock, table};
  Shares shares{options, clock, back_off, speed};
  Limits limits{options, clock, back_off, ceilings, rate_delay, shares, shaping};
  Finish finish{options, clock, back_off, speed, limits, shares};
  Windows windows{options, back_off, rate_delay, limits, finish};
  Paying paying{options, clock, speed, memory};
  Chooser chooser{options, back_off, speed, rate_delay, limits, shares, finish, windows};
  Routes routes;
  Sources sources{turn, options};
  Pool pool{clock, turn, to_serve, shares};

  Slab<Message> messages;
  NumberTable<Message> message_numbers;
  Slab<Job> jobs;
  std::unordered_map<ConnectionNumber, std::unique_ptr<Connection>> connections;
  TenantQueue<Party> routing_queue{&Tenant::routing};
  std::uint64_t routing = 0;  // look-ups under way
  std::deque<std::pair<MessageNumber, std::uint32_t>> route_alone;
  bool routing_solo = false;
  List<Job> forming;         // oldest first
  Tenants tenants{options};  // after all queues: its lines are in them

 private:
  // routing.cc
  void pump_routing();
  void end_joining(Job& j);  // no recipient joins it any more
  void formed(Job& j);
  /// The key by which recipients of a message share a job: the route set, or the cluster where next hops may differ.
  /// Those with a rewritten sender share none with others.
  const void* join_key(const Message& m, const RouteSet& r, bool rewritten) const;

  // place.cc
  enum class Outcome : std::uint8_t { assigned, pooled, dead };
  Outcome try_level(Job& j, std::size_t level, bool from_pool);
  void defer_dead(Job& j);

  // gates.cc
  /// The job has passed its gates, and looks for a connection. False: it waits, or was put off.
  bool pass_gates(Job& j);
  /// The job is no longer before a gate, nor counted by one.
  void leave_gates(Job& j);
  /// One of the job's gates does not let it begin now: the job goes back there.
  bool sent_back(Job& j);
  void begin_at_gates(Job& j);
  void ended_at_gates(Job& j);
  void open_gates();
  struct EndComplaint {
    bool rests = false;  // a gate is closed because of it
    std::optional<SourceBlock> block{};
  };
  /// A peer refuses to talk, or closes with a reply, which may complain of something: of the sender with the next mail
  /// on a connection that was opened.
  EndComplaint complained_at_close(const Connection& c, bool was_opened, const mail::DeliveryStatus& status);
  void wait_at(Gate& g, Job& j, bool at_front);

  // next_host.cc
  /// What a host does not take of the job may be tried at another one in this round.
  bool may_go_on(const Job& j, const Destination& from) const;
  void give_up(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status);
  Job& part_of(Job& j, const Ordinals& ordinals, RouteSet& route);
  void schedule_gone_on();

  // suspend.cc
  /// Asks the rule again about the route and its destinations when its answer is old; acts on what changed.
  void judge_again(RouteSet& r);

  // pump.cc
  void pump_workers();
  /// The same as for a destination, for each of a cluster where a connection may be opened.
  void unblock(Cluster& c);
  /// One of those that wait for limits in the cluster looks again, if a connection may be opened for it.
  void look_again(Cluster& c);
  /// The job that it took into its backlog; nullptr: there is none for it.
  Job* pull(Connection& c);
  Job* steal(Connection& c);
  /// Closes connections that are still being opened and have nothing left to do because others took it.
  void give_up_empty();
  /// A shared party that had a turn goes behind all that wait: as a message that came now.
  template <class T>
  void to_the_end(TenantQueue<T>& queue, typename TenantQueue<T>::Entry& entry) {
    queue.remove(entry);
    entry.seq = turn++;
    queue.add(entry);
  }

  // connections.cc
  Connection& open(Destination& d, const Job& cause);
  void assign(Job& j, Connection& c);  // attach() and hand_out()
  void attach(Job& j, Connection& c);
  void unassign(Job& j);
  void hand(Connection& c, Job& j);
  void unset_idle(Connection& c);
  void wait_from_now(Connection& c);
  void free_from_stuck(Transport& t);
  void send_close(Connection& c);
  void concurrency_changed(Party& p, int by);
  /// So many more parties of the tenant have jobs on the connection.
  void tenant_on(Connection& c, Tenant* tenant, int parties);
  void retire_spent();
  void end_pauses();
  /// Gives up those that have had no answer for longer than our patience, if others want their workers.
  void abandon_probes(Transport& t);

  // leases.cc
  void serve_classes();
  /// Puts in line the destinations of a level that only their class keeps from another connection.
  void wait_for_session(const std::vector<std::unique_ptr<Member>>& level);
  /// Whether jobs wait that could not get a connection to it.
  bool wants_more(const Destination& d) const;

  // alone.cc
  /// The next job that is to run alone begins if nothing is in hand; the one that has begun looks again for a
  /// connection.
  void run_alone(Transport& t);
  /// Closes a connection for the job that runs alone; with nothing else in hand any may go. False: none is left.
  bool make_room_for_solo(Transport& t);
  /// Closes the connections that hold the leases it wants: none of them may do anything until it ran.
  void free_leases_for(const Job& solo);
  /// Defers it when its time has ended and it has no connection that it may use.
  void give_up_solo(Transport& t);
  /// A job that ran alone, or was to, has gone.
  void alone_ended(Transport& t);
  /// Hands out what lies ready on connections since the last such job ended.
  void resume(Transport& t);

  std::uint64_t next_connection_ = 1;
  std::vector<ConnectionNumber> left_empty_;  // being opened when their last job was taken
  std::vector<JobNumber> gone_on_;            // jobs for the next host, to be scheduled
};

}  // namespace pen::qmgr::scheduler
