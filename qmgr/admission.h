#pragma once
/// How a message comes into the active set, from memory or from the queue log, and how room is made for it.
///
/// Use:     if (may_admit()): begun() with what QueueLog::Work::start() said, read() for a stored version, then
///          admit().
/// State:   how many messages were parked to make room, and when that was last said.
/// Rules:   a message is admitted after its work has begun in the log, and is with the scheduler from then on.
#include <cstdint>
#include <memory>
#include <string>

#include "qmgr/active_set.h"
#include "qmgr/rounds.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

/// The source of all probes of address verification: one pseudo-message, so that whatever strangers make us ask has the
/// turns and the workers of one message. Senders have odd numbers.
inline constexpr SourceNumber kVerification = 2;

class Admission {
 public:
  Admission(const Surroundings& around, ActiveSet& active, Rounds& rounds)
      : around_(around), active_(active), rounds_(rounds) {}

  /// The active set has room, and the disk for the replacements of all its messages.
  bool may_admit() const { return active_.has_room() && around_.log.work().may_begin(); }

  /// Whether work on a message has begun, and if not, when it is to be tried again.
  enum class Begun : std::uint8_t {
    yes,
    superseded,  // never: another version counts; said in the log
    moving,      // after the next commit: it is on its way to another log
    no_space,    // in a second
  };
  Begun begun(const std::string& queue_id, Result<void> started) const;
  /// The message of a version with work begun. nullptr: it cannot be read, and is on hold now.
  std::unique_ptr<Active> read(queue_log::Stored&& stored) const;
  /// Takes it in. A message that came in for the hold log ends there at once; one whose tenant or class has its share
  /// of the active set (tenant_shares.h), or whose time has not come, goes to a retry log at once.
  Active& admit(std::unique_ptr<Active> message);

  /// Takes in one that waited for a share, where there is room by now. False: there is none.
  bool admit_waiting();
  /// It can be tried: a message waits for a share that has room, and nothing keeps it.
  bool any_waiting() const { return any_ready() && around_.clock.now() >= waiting_until_; }
  SteadyTime waiting_until() const { return any_ready() ? waiting_until_ : kNever; }
  void commit_came() { waiting_until_ = {}; }

  /// Messages that wait for slow hosts with more than their share go to the shortest retry log. For when others find no
  /// room.
  void park_excess();
  std::uint64_t parked() const { return parked_; }

 private:
  bool any_ready() const { return active_.urgencies().any_ready() || active_.tenants().any_ready(); }
  bool passed_on(const Active& m);
  /// It cannot be begun before the next commit, or before a second has passed. Returns false.
  bool wait_for_commit(TenantShares& shares, TenantShares::Waiting next);
  /// The message that was read of a stored version. nullptr: none was, and the version is on hold now.
  std::unique_ptr<Active> readable(std::unique_ptr<Active> m, const queue_log::Envelope& as_it_is) const;
  /// What keeps a message out of the active set for now.
  Active::WaitsFor keeps_out(const Active& m) const;

  const Surroundings& around_;
  ActiveSet& active_;
  Rounds& rounds_;
  std::uint64_t parked_ = 0;
  SteadyTime parked_told_{};
  SteadyTime waiting_until_{};  // one was on its way between two logs: after the next commit, or then
};

}  // namespace pen::qmgr
