#pragma once
/// What a Supervisor knows of each service and each process. For supervisor.cc and upgrade.cc alone.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "lib/base/async/stream.h"
#include "lib/base/pace.h"
#include "master/supervisor.h"

namespace pen::master {

// Time beyond stop_drain_time, for a program that must be killed.
inline constexpr seconds kGrace{1};
// A program is started again at once after it had served for a second, and after one earlier death.
inline constexpr Pace::Options kRestarts{.first = seconds(1), .longest = seconds(60), .settled = seconds(1), .free = 2};

struct Supervisor::Process {
  pid_t pid = -1;
  SteadyTime started;
  SteadyTime ready = kNever;
  bool draining = false;
  bool candidate = false;  // it is to replace another, and is not ready
  std::string name;        // of master's end of the status socket, for the keeper
  std::string version;     // of the program: master's at that time
  bool badged = false;     // it was given badges
  Fd orphan;               // the process, where it is no child of this master
  // Of an exclusive program its file, which an upgrade may have to come back to; master may not look for it in /proc
  // under the packaged unit. And the file's name for the keeper.
  Fd file;
  std::string file_name;
  unsigned log_round = 0;         // the last one that it has taken
  std::deque<unsigned> log_sent;  // those that it has not answered yet
  std::string confined;           // what it said is in force
  unsigned violations = 0;
  std::unique_ptr<async::Stream> status;
  async::Loop::TimerHandle kill_timer;
  std::unique_ptr<async::Gate> tasks;

  /// Takes that of a former master over. Where it has ended, nullptr, and its descriptors stay where they are.
  static std::unique_ptr<Process> take(async::Loop& loop, const Handover::Program& program, Descriptors& descriptors);

  /// To nobody else, even if the process has just ended and the number is another's.
  void signal(int signo) const {
    if (orphan) {
      ::syscall(SYS_pidfd_send_signal, orphan.get(), signo, nullptr, 0);
    } else {
      ::kill(pid, signo);  // a child's number stays its own until it is waited for
    }
  }
};

struct Supervisor::Service {
  explicit Service(async::Loop& loop, service::Planned p)
      : plan(std::move(p)), tasks(std::make_unique<async::Gate>(loop)) {}
  service::Planned plan;
  State state = State::stopped;
  Pace pace{kRestarts};
  unsigned restarts = 0;
  bool used = false;
  std::string last_end;
  // the program's reason for not starting; empty since a start succeeded
  std::string why;
  std::vector<std::unique_ptr<Process>> processes;  // the serving process is the last one
  async::Loop::TimerHandle start_timer, wakeup_timer;
  std::unique_ptr<async::Gate> tasks;  // the watch on the sockets

  // of the program that was replaced, for as long as that may be undone; then it is what starts
  Fd former_file;
  bool runs_former = false;
  // The new program of a reload does not serve: this one goes on with the settings that it has.
  bool former_settings = false;
  // Its program was replaced and shall show that it serves: it starts although nobody connects.
  bool must_serve = false;

  /// For people and for the status file.
  const char* state_word() const;
  /// The new one keeps connections to the other, and shall meet the new one of that: the former has the settings of
  /// before.
  bool waits_for(const Service& other) const;
  Process* current() const {
    for (auto it = processes.rbegin(); it != processes.rend(); ++it) {
      if (!(*it)->candidate) return (*it)->draining ? nullptr : it->get();
    }
    return nullptr;
  }
  Process* of(pid_t pid) const {
    const auto it = std::ranges::find_if(processes, [pid](const auto& p) { return p->pid == pid; });
    return it == processes.end() ? nullptr : it->get();
  }
};

}  // namespace pen::master
