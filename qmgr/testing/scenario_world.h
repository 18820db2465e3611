#pragma once
/// The world of a scenario: the scheduler, in virtual time, with hosts and routes as the scenario says. Hosts that were
/// named by `host` answer by themselves; what concerns others waits until the scenario expects it and acts for them.
///
/// Use:     the verbs call it (scenario_verbs.h). The scheduler is made by the first event: settings come before.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/queue/destdb/facts.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scenario {

struct Host {
  milliseconds connect{0}, trip{0}, reply{0};
  std::uint32_t window = 1;
  std::uint32_t closes_after = 0;
  std::size_t served = 0;
  bool refuses = false;
  bool automatic = false;
};

struct Message {
  MessageNumber number = 0;
  std::vector<std::string> recipients;  // domains
  std::size_t delivered = 0, deferred = 0;
  SteadyTime arrived{};
  SteadyTime ended = kNever;
};

class World {
 public:
  // --- before the first event ---
  Options options;
  TransportLimits limits;
  ipc::TlsLevel tls = ipc::TlsLevel::none;
  std::uint64_t seed = 1;
  seconds valid{3600};                                                  // how long routes are
  std::map<std::string, std::vector<std::vector<std::string>>> routes;  // of domains: hosts by level
  std::map<std::string, Host> hosts;
  std::set<std::string, std::less<>> rule;  // names that defer_destinations names
  destdb::MemoryTable table;
  bool manual_routing = false;
  std::string tenant;  // of what arrives
  Urgency urgency = Urgency::normal;
  void add_to_class(std::uint32_t number, std::size_t most, const std::vector<std::string>& members);

  // --- events ---
  Scheduler& core();
  bool begun() const { return core_.has_value(); }
  void arrive(const std::string& name, const std::vector<std::string>& recipients);
  /// The oldest job in hand of the connection ends: delivered.
  void finish(ConnectionNumber c, microseconds service);
  /// Or its host takes nothing of it, or not these many recipients; 0: all.
  void put_off(ConnectionNumber c, std::size_t count, JobEnd end);
  /// It ends: not these many recipients, the last ones, which were of another domain than the host takes at once.
  void one_domain(ConnectionNumber c, std::size_t count);
  void rest(ConnectionNumber c, std::size_t count);
  /// The connection is no more. unstarted: of the jobs in hand nothing was sent.
  void close(ConnectionNumber c, bool was_opened, ipc::delivery::Trouble trouble, std::string dsn, std::string says,
             bool unstarted);
  void seize(std::uint32_t session_class, std::size_t count) { session_limits_.at(session_class).count += count; }
  void leave(std::uint32_t session_class, std::size_t count);
  /// Messages of one recipient from now on: NAME0, NAME1 …
  void arrive_each(const std::string& name, const std::string& domain, std::uint32_t count, milliseconds every);
  void advance(milliseconds by);
  /// Takes the scheduler's actions: hosts that answer by themselves do so, the others' wait to be expected. Nothing may
  /// wait needlessly then.
  void collect();

  // --- looking ---
  WallTime wall() const;
  ipc::Destination destination(const std::string& host) const;
  ipc::route::Resolved resolved(const std::string& domain, std::uint32_t ordinal) const;
  Message& message(const std::string& name);
  ConnectionNumber connection(const std::string& name);
  void name_connection(const std::string& name, ConnectionNumber c) { names_[name] = c; }
  const HandJob& in_hand(ConnectionNumber c);
  /// Takes the first of the actions not yet expected that fits; fails if there is none.
  template <class T, class F>
  void take(F&& fits) {
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (auto* a = std::get_if<T>(&*it); a != nullptr && fits(*a)) {
        pending_.erase(it);
        return;
      }
    }
    BOOST_ERROR("did not happen; pending: " << pending());
  }
  void expect_nothing();

 private:
  struct Timed {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator>(const Timed& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };
  struct Live {
    std::string host;
    std::deque<HandJob> in_hand;
    std::deque<SteadyTime> since;  // each of them
    std::uint32_t served = 0;
    bool replying = false;
  };

  struct SessionLimit {
    std::size_t most = 0, count = 0;
    bool refused = false;
  };
  Message& message(MessageNumber n) { return messages_.at(by_number_.at(n)); }
  void act(RouteRecipient& a);
  void act(OpenConnection& a);
  void act(HandJob& a);
  void act(CloseConnection& a);
  void act(DeferRecipients& a);
  bool lease(const OpenConnection& a);
  void release(ConnectionNumber c);
  void serve(ConnectionNumber c);
  void answer(ConnectionNumber c);
  void end_if_done(Message& m) const;
  void at(milliseconds later, std::function<void()> f);
  HandJob take_job(ConnectionNumber c);
  std::string pending() const;

  std::optional<Random> random_;
  std::optional<Scheduler> core_;
  SteadyTime now_{seconds(1000)};
  std::map<std::string, Message> messages_;
  std::map<MessageNumber, std::string> by_number_;
  std::map<std::string, ConnectionNumber> names_;
  std::map<ConnectionNumber, Live> live_;
  std::deque<Action> pending_;
  std::vector<Timed> timed_;
  std::uint64_t order_ = 0;
  std::map<std::uint32_t, SessionLimit> session_limits_;
  std::map<std::string, std::uint32_t, std::less<>> class_of_;
  std::map<ConnectionNumber, std::uint32_t> leased_;
};

}  // namespace pen::qmgr::scenario
