#pragma once
/// The core of destdb_backend = redis, without I/O: what a host of a cluster shares about its destinations, and when.
///
/// A host's own knowledge always answers first; this only corrects it. While the server is away (down()), every wanted
/// connection is granted at once, and what is learned waits to be sent.
///
/// Use:     set_time() before each batch of events; then the events. take_requests() goes to the server (with the
///          scripts of leases.h), take_effects() to the scheduler and the delivery programs; call tick() at
///          next_wake(). Every request is answered by answered() or lost by down().
///          want(connection, key, …) asks for a connection; the effect is Open or Refuse, at the latest after
///          Options::patience. gone(connection) when it is closed.
/// Keys:    of destinations, as in the scheduler; the caller passes only those that it wants shared.
/// Bounds:  Options::entries destinations, of which the longest unused go first; those in use are bounded by the
///          connections. Options::under_way requests. Beyond these bounds a host's own knowledge is all there is.
/// Thread:  one. Same events: same effects.
/// Source:  docs/origins.md "The scheduler"; docs/destdb-cluster.md.
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lib/queue/destdb/groups.h"
#include "lib/queue/destdb/leases.h"

namespace pen::destdb {

class ClusterSharing {
 public:
  using Connection = std::uint64_t;
  struct Options {
    milliseconds lease{15'000};  // destdb_lease_time
    milliseconds patience{200};  // the longest time that a connection waits for its lease
    milliseconds lazy{5000};     // the shortest time between messages about measurements and times
    milliseconds doubt{2000};    // the shortest time between requests for the facts of a failing destination
    std::size_t entries = 20'000;
    std::size_t under_way = 256;
  };

  // --- to the server ---
  struct AskLease {
    std::uint64_t id = 0;
    std::string key;
    std::uint32_t held = 0, wanted = 0, limit = 0;
    std::uint64_t version = 0;  // the known version of the facts
  };
  struct TellFacts {
    std::uint64_t id = 0;
    std::string key;
    std::vector<std::pair<std::string, std::string>> groups;  // name, encoded
  };
  using Request = std::variant<AskLease, TellFacts>;

  // --- to the scheduler and the delivery programs, in order ---
  struct Open {
    Connection connection = 0;
  };
  struct Refuse {  // other hosts have all connections
    Connection connection = 0;
  };
  struct Elsewhere {  // other hosts' connections to the destination
    std::string key;
    std::uint32_t connections = 0;
  };
  struct Learned {
    std::string key;
    Facts facts;
  };
  struct LookAgain {  // a refused host may get a connection now
    std::string key;
  };
  struct GiveBack {  // others wait: keep this many; close the rest when their jobs are done
    std::string key;
    std::uint32_t keep = 0;
  };
  using Effect = std::variant<Open, Refuse, Elsewhere, Learned, LookAgain, GiveBack>;

  explicit ClusterSharing(Options options) : options_(options) {}
  ~ClusterSharing();
  ClusterSharing(const ClusterSharing&) = delete;
  ClusterSharing& operator=(const ClusterSharing&) = delete;

  void set_time(SteadyTime now, WallTime wall) {
    now_ = now;
    wall_ = wall;
  }

  // --- from the scheduler ---
  /// limit: permitted connections to the destination at once, over all hosts. known: its facts; nullptr: none.
  void want(Connection connection, std::string_view key, std::uint32_t limit, const Facts* known);
  /// True: the connection was still waiting for its lease, and is forgotten.
  bool cancel(Connection connection);
  void gone(Connection connection);
  /// The destination's facts changed here. own_trouble: its failures concern this host alone and are not shared. No
  /// effect for a destination that was neither wanted nor doubted before.
  void changed(std::string_view key, const Facts& facts, bool own_trouble = false);
  /// The destination's facts keep mail from it: other hosts may know better.
  void doubted(std::string_view key, const Facts& known);
  /// An administrator's order: forget everything about the destination, here and in the server.
  void forgotten(std::string_view key);

  // --- from the server ---
  void up();
  void down();
  bool is_up() const { return up_; }
  struct Told {  // the fields of the record that differ from the known ones
    std::uint64_t version = 0;
    std::vector<std::pair<std::string, std::string>> groups;
  };
  void answered(std::uint64_t id, const LeaseAnswer& lease, const Told& facts);
  void answered(std::uint64_t id, std::uint64_t version);

  void tick();
  SteadyTime next_wake() const;
  std::vector<Request> take_requests();
  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

  // --- looking ---
  /// Other hosts' connections, as last heard; nullopt: not shared, or the server is away.
  std::optional<std::uint32_t> elsewhere(std::string_view key) const;
  std::size_t entries() const { return entries_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Destinations to which we have connections: to be reported when we leave.
  std::vector<std::string> held_keys() const;

 private:
  struct Want {
    Connection connection = 0;
    SteadyTime until{};
    bool asked = false;
  };
  struct Entry {
    std::string key;
    std::set<Connection> held;
    std::vector<Want> wants;
    std::uint32_t limit = 0;
    SteadyTime held_since{};
    bool opened = false;  // a connection of ours has succeeded since we hold any

    std::uint64_t asking = 0;  // the open request; 0: none
    std::uint32_t said = 0;    // connections reported to the server, including those it granted
    bool ask = false;          // report or ask again
    std::uint32_t others = 0;  // as last heard
    std::uint32_t shown = 0;   // as reported to the scheduler
    SteadyTime renew = kNever, probe = kNever, doubt = kNever;

    Facts facts;
    std::array<WallTime, kGroups> changed{};
    std::uint8_t untold = 0;  // groups not sent yet, one bit each
    SteadyTime tell = kNever;
    std::uint64_t telling = 0;
    std::uint64_t version = 0;
    SteadyTime doubted{};
    bool ever_doubted = false;

    bool queued = false;
    SteadyTime wake = kNever;  // its place in wakes_
    std::list<Entry*>::iterator unused;
    bool is_unused = false;
    bool busy() const {
      return !held.empty() || !wants.empty() || asking != 0 || telling != 0 || untold != 0 || queued ||
             probe != kNever;  // when a refused caller is asked to look again
    }
  };

  Entry* find(std::string_view key);
  Entry* entry(std::string_view key, const Facts* known);
  void queue(Entry& e);
  /// Call this after every change of an entry: sets its next wake, and whether it can be dropped.
  void settle(Entry& e);
  void drop(Entry& e);
  void hold(Entry& e, Connection connection);
  void grant_all(Entry& e);
  void show(Entry& e, std::uint32_t connections, bool again = false);
  bool learn(Entry& e, const Told& told);
  bool keeps_away(const Facts& f) const { return f.failures > 0 && f.next_retry > wall_; }
  /// The number it tolerates by these facts, within the limit.
  std::uint32_t limit_of(const Entry& e) const;

  Options options_;
  SteadyTime now_{};
  WallTime wall_{};
  bool up_ = false, slow_ = false;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
  std::unordered_map<Connection, Entry*> holders_, waiting_;
  std::unordered_map<std::uint64_t, Entry*> requests_;
  std::deque<Entry*> queue_;
  std::set<std::pair<SteadyTime, Entry*>> wakes_;
  std::list<Entry*> unused_;  // longest unused first
  std::vector<Effect> effects_;
};

}  // namespace pen::destdb
