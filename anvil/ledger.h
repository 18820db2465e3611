#pragma once
/// The count of SMTP sessions per session class: who holds leases, who may have another, who waits. No I/O, no clock.
///
/// Rules:   one count per class, incoming and outgoing together. An incoming lease is granted while the count is
///          below the refuse limit, an outgoing one while it is below the total limit; either may be the higher one.
///          At the refuse limit the class's outgoing connections are asked for an idle one first: the incoming
///          session waits for the answer, at most kYieldTime. An outgoing one that is refused is told when there is
///          room. Every other time, the place that falls free goes to outgoing mail that waits: it is kept for its
///          holder for kReserved, or clients that come all the time would take it before the holder has asked. What a
///          holder says it holds is counted whatever the limit. After a restart (the first holder comes again) other
///          requests wait for kSettleTime, in which every holder has told what it holds.
/// Use:     one Holder per connection: begin(), take(), release(), yielded(), end() when it ends, by whatever cause;
///          then send what take_actions() gives. tick() when next_wake() has come.
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
#include "lib/ipc/sessions.h"
#include "lib/sessions/classes.h"

namespace pen::anvil {

/// An idle connection is closed with QUIT: a peer that does not answer that shall not keep a client waiting for long.
inline constexpr seconds kYieldTime{3};
/// Holders are back within a tenth of a second: they wait on the socket while anvil is being started.
inline constexpr milliseconds kSettleTime{300};
/// A holder that is told of room asks within a turn of its loop.
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
  /// The connection is gone: all that it held is free.
  void end(Holder holder);
  /// False: the number is in use, or there are too many: the connection had better end.
  bool take(Holder holder, const ipc::sessions::Take& asked);
  void release(Holder holder, std::uint64_t lease);
  void yielded(Holder holder, const ipc::sessions::Yielded& answer);
  /// Incoming sessions that waited for long enough are refused; what waited for others to settle is answered.
  void tick();
  SteadyTime next_wake() const;
  /// In order.
  std::vector<Send> take_actions() { return std::exchange(actions_, {}); }

  bool all_full() const { return all_full_; }
  /// request stays 0.
  ipc::sessions::Status status() const;

 private:
  /// An incoming session that waits for an outgoing one to end.
  struct Pending {
    Holder holder = 0;
    std::uint64_t lease = 0;
    std::uint64_t ask = 0;  // under way; 0: answered, a connection is closing
    SteadyTime deadline{};
  };
  struct ClassState {
    std::uint64_t incoming = 0, outgoing = 0, refused = 0;
    bool was_full = false;
    std::uint64_t promised = 0;  // idle connections that are being closed
    std::deque<Pending> pending;
    std::map<Holder, std::uint64_t> out;  // outgoing leases of each
    std::set<Holder> refused_out;         // to be told of room
    Holder reserved_for = 0;              // one place, 0: none
    SteadyTime reserved_until{};
    bool reserved_last = false;  // the last place that fell free was
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
  /// Asks a holder of outgoing sessions for an idle one. 0: there is none, or it would not help.
  std::uint64_t ask_for_idle(std::uint32_t c);
  void refuse(std::uint32_t c, const Pending& p);
  /// After the count fell: who waits gets in, and waiting outgoing ones are told.
  void fell(std::uint32_t c);
  /// Whoever waits at the head with nothing under way asks again.
  void ask_again(std::uint32_t c);
  void note(std::uint32_t c);
  void note_all_full();

  sessions::Classes classes_;
  std::vector<ClassState> states_;
  std::unordered_map<Holder, HolderState> holders_;
  std::map<std::uint64_t, Ask> asks_;
  std::vector<Send> actions_;
  SteadyTime now_{};
  std::deque<std::pair<Holder, ipc::sessions::Take>> unsettled_;  // asked before settle_until_
  SteadyTime settle_until_ = SteadyTime::min();
  std::uint64_t next_holder_ = 1, next_ask_ = 1;
  std::uint64_t standing_ask_ = 0;  // made because every class was full; for nobody in particular
  std::size_t full_ = 0;            // classes that hold their refuse limit
  bool all_full_ = false;
};

}  // namespace pen::anvil
