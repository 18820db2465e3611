#pragma once
/// How long walks through the queue work at a time, and when: mail that flows has the rest of the time.
///
/// Use:     while ((wait = walks.wait(now, commits)) > 0) co_await loop.sleep(wait);  // another may have come first
///          Walks::Turn turn(now);
///          do look at an entry while (!turn.over(now));
///          walks.end(turn, now, commits);                                            // then let the loop turn
/// Rules:   a turn ends after kTurn or kEntries. While the queue log commits, which is while mail comes or goes, all
///          walks together have one part in kShare of the time; on a quiet host they go on as fast as they can.
/// Thread:  the loop's. The times are the clock's, not those of the loop's turn.
#include <algorithm>
#include <cstdint>

#include "lib/base/time.h"

namespace pen::qmgr {

class Walks {
 public:
  static constexpr milliseconds kTurn{2};
  static constexpr int kEntries = 200;
  static constexpr int kShare = 10;
  static constexpr seconds kCalm{1};  // without a commit: nobody waits

  /// How long no walk may begin a turn. commits: how many there were so far.
  std::chrono::nanoseconds wait(SteadyTime now, std::uint64_t commits) {
    note(now, commits);
    return std::max<std::chrono::nanoseconds>(free_ - now, std::chrono::nanoseconds(0));
  }
  class Turn {
   public:
    explicit Turn(SteadyTime now) : began_(now) {}
    /// After each entry.
    bool over(SteadyTime now) { return ++entries_ >= kEntries || now - began_ >= kTurn; }
    SteadyTime began() const { return began_; }

   private:
    SteadyTime began_;
    int entries_ = 0;
  };
  /// What was waited for within the turn, a tool that reads slowly, does not count in full.
  void end(const Turn& turn, SteadyTime now, std::uint64_t commits) {
    note(now, commits);
    if (now - busy_ >= kCalm) return;
    const auto took = std::min<std::chrono::nanoseconds>(now - turn.began(), 10 * kTurn);
    free_ = std::max(free_, now + took * (kShare - 1));
  }

 private:
  void note(SteadyTime now, std::uint64_t commits) {
    if (commits == commits_) return;
    commits_ = commits;
    busy_ = now;
  }
  SteadyTime free_{}, busy_ = SteadyTime{} - kCalm;
  std::uint64_t commits_ = 0;
};

}  // namespace pen::qmgr
