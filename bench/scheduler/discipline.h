#pragma once
/// The interface of the schedulers under comparison, and the world they act on.
///
/// Use:     the simulation (simulation.h) tells a Discipline what happens, and the Discipline acts through World. All
///          see the same arrivals, hosts and limits. A worker is a connection with a delivery or for one.
/// Words:   message, ordinal, job and connection as in qmgr/scheduler/scheduler.h.
/// Thread:  one. World outlives the Discipline.
#include <memory>
#include <optional>
#include <string>

#include "bench/scheduler/internet.h"
#include "lib/suite/sessions/classes.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::simulation {

using qmgr::ConnectionNumber;
using qmgr::JobNumber;
using qmgr::MessageNumber;
using qmgr::Ordinals;

/// The limits, equal for all schedulers.
struct Limits {
  std::uint32_t workers = 500;                 // connections or delivery processes at a time
  std::uint32_t destination_concurrency = 20;  // default_destination_concurrency_limit
  std::uint32_t initial_concurrency = 5;       // initial_destination_concurrency
  std::uint32_t destination_recipients = 50;   // default_destination_recipient_limit
  milliseconds idle_age{2000};                 // smtp_connection_cache_time_limit
  std::size_t active_messages = 20'000;        // qmgr_message_active_limit, which the simulation enforces
  bool share_limit = true;                     // active_share_limit, which only Penstock has: a quarter; false: none
  /// session_classes, for schedulers that know them; nullptr: none.
  std::shared_ptr<const sessions::Classes> session_classes;
};

class World {
 public:
  virtual ~World() = default;
  virtual SteadyTime now() const = 0;
  virtual const Internet& internet() const = 0;
  virtual DomainNumber domain_of(MessageNumber message, std::uint32_t ordinal) const = 0;
  virtual SteadyTime arrival_of(MessageNumber message) const = 0;
  /// The sender's number; 0: one of the many that send little.
  virtual std::uint64_t sender_of(MessageNumber message) const = 0;
  /// Finds the hosts of the recipient's domain; Discipline::looked_up follows.
  virtual void look_up(MessageNumber message, std::uint32_t ordinal) = 0;
  /// Discipline::opened or closed follows. The number is the Discipline's choice and never used again.
  virtual void open(ConnectionNumber connection, HostNumber host) = 0;
  /// The same, once a lease of the session class is granted: first comes Discipline::session_granted or
  /// session_refused.
  virtual void open_in_class(ConnectionNumber connection, HostNumber host) = 0;
  /// Delivers the message to these recipients, after earlier deliveries on the connection; done follows.
  virtual void hand(ConnectionNumber connection, JobNumber job, MessageNumber message, const Ordinals& ordinals) = 0;
  /// Closes the connection after its deliveries. Nothing follows.
  virtual void close(ConnectionNumber connection) = 0;
  /// These recipients wait for a later round; the message returns by itself.
  virtual void deferred(MessageNumber message, const Ordinals& ordinals) = 0;
  /// The same, to make room for others: nothing was tried, so it counts as no round.
  virtual void parked(MessageNumber message, const Ordinals& ordinals) = 0;
};

class Discipline {
 public:
  virtual ~Discipline() = default;
  virtual void admit(MessageNumber message, const Ordinals& recipients) = 0;
  virtual void looked_up(MessageNumber message, std::uint32_t ordinal) = 0;
  virtual void opened(ConnectionNumber connection, const Host& host) = 0;
  /// unstarted: the deliveries in hand, none of which had an effect.
  virtual void closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
                      const std::vector<JobNumber>& unstarted) = 0;
  virtual void done(ConnectionNumber connection, JobNumber job, microseconds service_time) = 0;
  /// The message has no recipients left in this round.
  virtual void forget(MessageNumber message) = 0;
  virtual void session_granted(ConnectionNumber) {}
  virtual void session_refused(ConnectionNumber) {}
  virtual void session_room(std::uint32_t /*session_class*/) {}
  /// True: an idle connection of the class is being closed for another session.
  virtual bool yield_session(std::uint32_t /*session_class*/) { return false; }
  virtual void tick() {}
  /// The active set is full and messages wait: a scheduler that knows which messages will stay long defers them.
  virtual void make_room() {}
  virtual SteadyTime next_wake() const { return kNever; }
  /// The number of workers in use, whether or not their peers do anything.
  virtual std::uint32_t workers_held() const = 0;
  /// The scheduler's own time so far, if that is not all the time of its calls; nullopt: the simulation measures the
  /// calls.
  virtual std::optional<microseconds> own_time() const { return std::nullopt; }
};

enum class Kind : std::uint8_t { first_come, equal, slots, penstock };
inline constexpr Kind kKinds[] = {Kind::first_come, Kind::equal, Kind::slots, Kind::penstock};
/// "fcfs", "equal", "slots", "penstock".
std::string short_name(Kind kind);
/// The name in the plots.
std::string long_name(Kind kind);
std::unique_ptr<Discipline> make(Kind kind, World& world, const Limits& limits, std::uint64_t seed);

// One function for each scheduler, each in a file of its own.
std::unique_ptr<Discipline> make_first_come(World& world, const Limits& limits, std::uint64_t seed);
std::unique_ptr<Discipline> make_equal(World& world, const Limits& limits, std::uint64_t seed);
std::unique_ptr<Discipline> make_slots(World& world, const Limits& limits, std::uint64_t seed);
std::unique_ptr<Discipline> make_penstock(World& world, const Limits& limits, std::uint64_t seed);

}  // namespace pen::simulation
