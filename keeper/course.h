#pragma once
/// What follows the end of a master. No I/O, no clock.
///
/// Rules:   an end that was meant, and the status 0, end the keeper too; so does the end of the first master before it
///          was ready, which the starter is told.
///          After any other end the next master starts: at once, and after early ends in a row paced, as master paces
///          its programs. An end is early within a second of the time when master was ready, and before that.
///          The word that master is ready can be lost: one that lived for kSurelyReady was.
///          One that is killed again and again may be killed by what it takes over. So from the kLetsGo-th early end in
///          a row on, if a signal ended it, and at the kLetsGo-th end by a signal within kWindow, however long each
///          served, nothing is kept for the next one: when it starts the programs end, and all starts anew.
///          After kMost early ends in a row the keeper gives up, if nothing is kept by then. As long as something is,
///          programs serve, and an error that master names (a main.cf that it cannot read) may be mended: each
///          kLongest it is tried again.
#include <chrono>
#include <deque>

#include "lib/base/pace.h"
#include "lib/base/time.h"

namespace pen::keeper {

inline constexpr int kLetsGo = 5;
inline constexpr int kMost = 10;
inline constexpr seconds kLongest{60};
inline constexpr seconds kWindow{60};
// Later master does not say it for the first time: it waits 10 s for former programs, 2 s for their sockets, 30 s for
// its own programs (master/main.cc).
inline constexpr seconds kSurelyReady{45};

struct End {
  bool killed = false;                 // by a signal; else it ended by itself
  int value = 0;                       // of the signal, or the exit status
  bool meant = false;                  // master was told to end, or said that it would
  bool ready = false;                  // it was, before
  std::chrono::nanoseconds lived{0};   // since it was started
  std::chrono::nanoseconds served{0};  // since it was ready
  SteadyTime at{};                     // now
};

struct Next {
  bool start = false;  // another master; else the keeper ends
  int status = 0;      // with this exit status
  milliseconds pause{0};
  bool let_go = false;  // of all that is kept
};

class Course {
 public:
  /// keeps: there is something kept for the next master.
  Next after(const End& end, bool keeps);
  /// Early ends in a row.
  int in_a_row() const { return pace_.early_ends(); }

 private:
  bool killed_often(const End& end);

  Pace pace_{{.first = seconds(1), .longest = kLongest, .settled = seconds(1), .free = 2}};
  bool started_ = false;          // a master was ready once
  std::deque<SteadyTime> kills_;  // ends by a signal since all began anew, at most kLetsGo
};

}  // namespace pen::keeper
