#pragma once
/// Counts SMTP sessions per session class: which holders have leases, may have another, or wait. No I/O, no clock.
///
/// Rules:   each class has one count, incoming and outgoing sessions together. An incoming lease is granted while the
///          count is below the refuse limit, an outgoing one while it is below the total limit; either limit may be
///          the higher one.
///          At the refuse limit the ledger first asks a holder of the class's outgoing connections to close an idle
///          one: the incoming session waits for the answer, at most kYieldTime. A refused outgoing session is told
///          when there is room.
///          Every other place that becomes free goes to waiting outgoing mail. It is kept for its holder for
///          kReserved, or a steady stream of clients would take it before the holder asks. Sessions that a holder
///          reports are counted whatever the limit. After a restart (the first holder comes again) other requests
///          wait for kSettleTime, until every holder has reported.
/// Use:     one Holder per connection: begin(), take(), release(), yielded(), and end() when it ends for any reason;
///          then send what take_actions() returns. Call tick() when next_wake() has come.
/// Cost:    O(log n) in the leases, for each event.
/// Source:  docs/origins.md "Session classes"; docs/session-classes.md.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "lib/base/time.h"
#include "lib/suite/ipc/sessions.h"
#include "lib/suite/sessions/classes.h"

namespace pen::anvil {

/// An idle connection is closed with QUIT; a peer that does not answer must not keep a client waiting for long.
inline constexpr seconds kYieldTime{3};
/// Holders reconnect within a tenth of a second: they wait on the socket while anvil starts.
inline constexpr milliseconds kSettleTime{300};
/// A holder that hears of room asks within a turn of its loop.
inline constexpr milliseconds kReserved{200};
/// Leases of one holder: more than any process has descriptors.
inline constexpr std::size_t kMaxLeases = 1'000'000;

class Ledger {
 public:
  using Holder = std::uint64_t;
  struct Send {
    Holder to = 0;
    ipc::sessions::FromAnvil message;
  };

  explicit Ledger(sessions::Classes classes);

  /// Before each batch of events; never goes back.
  void set_time(SteadyTime now) { now_ = now; }
  Holder begin(const ipc::sessions::Begin& begin);
  /// The connection is gone: frees all its leases.
  void end(Holder holder);
  /// False: the number is in use, or there are too many leases; the connection should be closed.
  bool take(Holder holder, const ipc::sessions::Take& asked);
  void release(Holder holder, std::uint64_t lease);
  void yielded(Holder holder, const ipc::sessions::Yielded& answer);
  /// Refuses incoming sessions that waited for long enough, and decides requests that waited for kSettleTime.
  void tick();
  SteadyTime next_wake() const;
  /// The actions so far, in order.
  std::vector<Send> take_actions() { return std::exchange(actions_, {}); }

  bool all_full() const { return all_full_; }
  /// request stays 0.
  ipc::sessions::Status status() const;

 private:
  /// An incoming session that waits for an outgoing session to end.
  struct Pending {
    Holder holder = 0;
    std::uint64_t lease = 0;
    std::uint64_t ask = 0;  // the question in progress; 0: answered, a connection is closing
    SteadyTime deadline{};
  };
  struct ClassState {
    std::uint64_t incoming = 0, outgoing = 0, refused = 0;
    bool was_full = false;
    std::uint64_t promised = 0;  // idle connections that are being closed
    std::deque<Pending> pending;
    std::map<Holder, std::uint64_t> out;  // outgoing leases of each
    std::set<Holder> refused_out;         // to be told when there is room
    Holder reserved_for = 0;              // holder of the one reserved place; 0: none
    SteadyTime reserved_until{};
    bool reserved_last = false;  // whether the last place that became free was reserved
    std::uint64_t count() const { return incoming + outgoing; }
  };
  struct Lease {
    std::uint32_t in_class = 0;
    ipc::sessions::Direction direction{};
    bool pending = false;  // not counted
  };
  struct HolderState {
    bool listens = false;
    std::unordered_map<std::uint64_t, Lease> leases;
  };
  struct Ask {
    std::uint32_t in_class = 0;
    Holder holder = 0;
  };

  bool decide(Holder holder, const ipc::sessions::Take& asked);
  const sessions::Class& limits(std::uint32_t c) const { return classes_.list()[c]; }
  bool may_enter(std::uint32_t c) const {
    const ClassState& s = states_[c];
    return s.count() + (s.reserved_for != 0 ? 1 : 0) < limits(c).refuse;
  }
  void count(std::uint32_t c, Holder holder, ipc::sessions::Direction direction);
  void uncount(std::uint32_t c, Holder holder, ipc::sessions::Direction direction);
  void answer(Holder holder, std::uint64_t lease, bool granted, std::uint32_t c, ipc::sessions::Direction direction);
  /// Asks a holder of outgoing sessions to close an idle one. 0: there is none, or it would not help.
  std::uint64_t ask_for_idle(std::uint32_t c);
  void refuse(std::uint32_t c, const Pending& p);
  /// Called after the count fell: admits waiting sessions, and tells waiting outgoing ones of the room.
  void fell(std::uint32_t c);
  /// Asks again for the first waiting session, if no question is in progress.
  void ask_again(std::uint32_t c);
  void note(std::uint32_t c);
  void note_all_full();

  sessions::Classes classes_;
  std::vector<ClassState> states_;
  std::unordered_map<Holder, HolderState> holders_;
  std::map<std::uint64_t, Ask> asks_;
  std::vector<Send> actions_;
  SteadyTime now_{};
  std::deque<std::pair<Holder, ipc::sessions::Take>> unsettled_;  // requests that came before settle_until_
  SteadyTime settle_until_ = SteadyTime::min();
  std::uint64_t next_holder_ = 1, next_ask_ = 1;
  std::uint64_t standing_ask_ = 0;  // a question asked because every class was full, not for a particular session
  std::size_t full_ = 0;            // classes that are at their refuse limit
  bool all_full_ = false;
};

}  // namespace pen::anvil
