#pragma once
/// What users may have of the queue manager's socket: so many connections, and one order or question at a time.
///
/// Why:     the tools let any user connect, and a tool that is stopped keeps its connection. Each is a descriptor;
///          without descriptors the queue log has no next segment. And each order goes through the queue, each
///          question about a destination asks trivial-rewrite. (Listings wait for their readers, and have no turn.)
/// Use:     auto guest = guests.enter(uid); if (!guest) …refuse…; co_await guest->begin(); …the order…; guest->end();
/// Bounds:  kEach connections of a user, kAll of all users: an eighth of what the socket takes, so that root and the
///          programs of the mail system, which are no guests, have the rest. A user's order begins when the one
///          before it has ended, and as much time has passed as that took, kLongestPause at most.
/// Thread:  the loop's.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <sys/types.h>

#include "lib/base/async/loop.h"
#include "lib/base/async/sync.h"

namespace pen::qmgr {

/// A tool that asks nothing for so long is hung up on.
inline constexpr seconds kToolIdle{300};

class Guests {
 public:
  static constexpr std::size_t kEach = 32, kAll = 512;
  static constexpr seconds kLongestPause{1};

  /// all: where the socket takes few.
  explicit Guests(async::Loop& loop, std::size_t all = kAll)
      : loop_(loop), all_(all), each_(std::clamp<std::size_t>(all / 2, 1, kEach)) {}
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

 private:
  struct User {
    explicit User(async::Loop& loop) : turn(loop, 1) {}
    std::size_t connections = 0;
    async::Semaphore turn;
    SteadyTime next{};
  };
  using Users = std::map<uid_t, User>;

 public:
  /// One connection's place; it ends with the object, which the Guests must outlive.
  class Guest {
   public:
    Guest(Guests& guests, Users::iterator user);
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    /// Waits for the user's turn.
    async::Task<void> begin();
    void end();

   private:
    Guests& guests_;
    Users::iterator user_;
    bool in_turn_ = false;
    SteadyTime began_{};
  };
  /// nullptr: the user, or all users together, have as many as there may be.
  std::unique_ptr<Guest> enter(uid_t uid);
  std::size_t connections() const { return connections_; }

 private:
  async::Loop& loop_;
  std::size_t all_, each_;
  Users users_;  // with connections
  std::size_t connections_ = 0;
};

}  // namespace pen::qmgr
