#pragma once
/// Reports on messages that the bounce program is asked to send: docs/notices.md.
///
/// Use:     start() at the end of each round; the bounce program's answers and its absence are
///          events. settle() calls ask_again() and look_back().
/// State:   the reports asked for and not answered (with the permit to discharge them), the
///          messages with a report that waits for the bounce program, and those with one that waits
///          for a look through the queue (Discharges).
/// Rules:   a report is about results that are durable. It is paid when the notice is durable
///          (discharge()), whether the bounce program answers or not.
#include <deque>
#include <string>
#include <unordered_map>

#include "qmgr/active_set.h"
#include "qmgr/discharges.h"
#include "qmgr/rounds.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Reports {
 public:
  Reports(const Surroundings& around, ActiveSet& active, Rounds& rounds)
      : around_(around), active_(active), rounds_(rounds), discharges_(around) {}

  /// Asks for the next report that is due, if one is. True: the round is not over before it is
  /// made.
  bool start(Active& m);
  /// So many reports have no answer that one which can wait is not begun: its message is in the active set meanwhile.
  bool busy() const { return asked_.size() + waiting_.size() + looking_up_.size() >= kMany; }
  /// Drops what could not be reported for bounce_queue_lifetime (at least one longest retry interval) and says so.
  void give_up(Active& m);

  // --- events of the bounce program ---
  void notified(const ipc::bounce::Notified& answer);
  /// The program died: reports without an answer are asked for again after a pause.
  void lost();
  /// It can be reached now: asks again for every report without an answer.
  void ready();
  /// It cannot be reached: they stay owed, and the messages wait for their next retry.
  void unavailable(const std::string& why);

  // --- notices ---
  /// Whether this permit allows it: it was given with the request for just this report.
  bool may_discharge(const mail::Discharge& d, std::uint64_t permit) const;
  /// The notice is durable: its report is no longer owed.
  void discharge(const mail::Discharge& d);
  /// A message came back from the log: it may be a notice from before a restart.
  void seen(const mail::Envelope& message) { discharges_.add(message); }

  // --- settling ---
  /// Looks again at the messages that have waited out their pause.
  void ask_again();
  /// A slice of the look for notices that were made before a restart, if a report waits for it.
  void look_back();
  SteadyTime wake_at() const;
  std::uint64_t made() const { return made_; }

 private:
  static constexpr std::size_t kMany = 100;
  struct Asked {
    MessageNumber message = 0;
    std::uint64_t permit = 0;
    ipc::bounce::Kind kind = ipc::bounce::Kind::failure;
    queue_log::OrdinalSet ordinals;
  };
  bool ask(Active& m, ipc::bounce::Kind kind);
  bool worth_noting(const Active& m) const;
  /// The answer to a probe goes to verify, which probes again for what it does not hear of: nothing stays owed.
  void tell_verify(Active& m);
  /// The reports that these wait for are to be asked for again, if they are still owed.
  void resume(std::deque<MessageNumber> messages);

  const Surroundings& around_;
  ActiveSet& active_;
  Rounds& rounds_;
  Discharges discharges_;
  std::uint64_t next_request_ = 1;
  std::unordered_map<std::uint64_t, Asked> asked_;
  SteadyTime again_ = kNever;             // after the program was lost
  std::deque<MessageNumber> waiting_;     // until then
  std::deque<MessageNumber> looking_up_;  // until the discharges are known
  std::uint64_t made_ = 0;
};

}  // namespace pen::qmgr
