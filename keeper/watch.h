#pragma once
/// The keeper's loop: one master after the other, what they leave here, signals, and tools that ask.
///
/// Use:     auto watch = Watch::make(place, report);  return (*watch)->run();
/// Signals: TERM, INT and QUIT go to master, and no other one follows; without a master the keeper ends. HUP, USR1,
///          USR2 and WINCH go to master; HUP without one has the next one start now.
/// Lease:   where another host waits for the queue (standby_lease) what is kept holds its lock. When no master has
///          become ready for standby_lease_time nothing is kept any more: whatever keeps masters from starting, the
///          other host can serve.
/// Trust:   the socket stands in a directory that is ours alone, and what does not come from the process that is master
///          is dropped with its descriptors.
/// Bounds:  kMostKept descriptors, half of what this process may open; a message as in message.h.
/// Thread:  of a process that has no other.
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/children.h"
#include "keeper/course.h"
#include "keeper/store.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

namespace pen::keeper {

// What a master takes at most (master/notify.cc).
inline constexpr std::size_t kMostKept = 4096;

class Watch {
 public:
  /// report: the descriptor on which the first master reports its start; it is closed here then. Errors: errno.
  static Result<std::unique_ptr<Watch>> make(Place place, int report);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Returns the exit status, when no further master is to come.
  int run();

 private:
  Watch(Place place, int report);
  Result<void> open();
  void start();
  void hear();
  void take(std::string_view text, Fd fd);
  void take_signals();
  void stop(int signo);
  void look_after_children();
  void let_another_host();
  SteadyTime lease_ends() const;
  void ended(const End& end, const std::string& text);
  milliseconds until_next() const;
  std::string outlook() const;
  void log(log::Level level, const std::string& text);
  int patience() const;

  Place place_;
  int report_;
  Store kept_;
  Course course_;
  std::string directory_;  // of the socket
  Fd lock_, notify_, signals_, door_;
  pid_t master_ = -1;     // -1: none
  SteadyTime began_{};    // when it was started
  SteadyTime ready_{};    // since when this master is; {}: it is not yet
  SteadyTime lost_{};     // when the last one that was ready ended
  SteadyTime next_{};     // when the next one starts, where there is none
  bool meant_ = false;    // the end of master will be
  bool lets_go_ = false;  // of what is kept, when the next one starts
  bool over_full_ = false;
  bool done_ = false;
  int status_ = 0;
  std::string last_end_;
  std::vector<pid_t> writers_;  // of lines of the log
};

}  // namespace pen::keeper
