#pragma once
/// The services of an instance: starts, watches, restarts, reloads and stops their programs.
///
/// A service is in one of these states (and may have old processes that still drain after a reload):
///   state      has               leaves it when
///   asleep     sockets           somebody connects, or its wake-up time comes: starting
///   starting   a process         it says "ready": serving; it dies: paced
///   serving    a process         it dies: paced (at_once) or asleep
///   paced      a time            the time has come: starting
///   replacing  an old process    that has ended: starting (exclusive services, at a reload)
///   stopped    nothing           -
/// Thread:  the loop's; master never has another.
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/readiness.h"
#include "lib/async/sync.h"
#include "lib/service/launch.h"
#include "master/sockets.h"

namespace pen::master {

class Supervisor {
 public:
  /// programs_lock: see lock.h. status_path: the file for the state; empty: none.
  Supervisor(async::Loop& loop, int programs_lock, std::string status_path);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts the services of a configuration, or changes over to it (reload). An error changes nothing.
  Result<void> adopt(const config::Config& config);
  /// SIGCHLD.
  void collect();
  /// Hands every program the log file that master has opened again. When all that had the former one have answered or
  /// ended, status_json() counts one more log_opened: nobody writes to the former file any more.
  void hand_out_log(int file);
  /// Sends SIGTERM to every program, and SIGKILL after stop_drain_time and a second. Returns when no process is left.
  async::Task<void> stop();

  /// Waits until every service that starts at once serves. Errors: timed_out, with the first service that does not.
  async::Task<Result<void>> all_ready(async::Until until);
  /// Writes the status file now; otherwise it follows each change within a turn or two.
  void write_status();
  /// A few words: how many services there are and how many serve.
  std::string summary() const;
  /// The text of the status file.
  std::string status_json() const;

 private:
  struct Service;
  struct Process;
  enum class State { asleep, starting, serving, paced, replacing, stopped };
  static const char* word(State state);
  void note_log_taken();

  /// Makes the pages of counters that services lack.
  Result<void> make_pages(const std::vector<service::Planned>& services);
  /// What penapi reads: the board, then the pages. One that cannot be opened is left out, with a warning.
  std::vector<Fd> pages_to_read() const;
  void start(Service& s);
  void sleep_or_start(Service& s);
  void retire(Service& s);
  void ended(Service& s, std::size_t process, int wait_status);
  void set_state(Service& s, State state);
  void arm_wakeup(Service& s);
  /// Sends SIGTERM to the processes of some services, SIGKILL at the deadline. Returns when they are gone.
  async::Task<void> end_all(std::function<bool(const Service&)> which, async::Until until);
  static async::Task<void> watch(Supervisor* self, Service* s);
  static async::Task<void> listen(Supervisor* self, Service* s, Process* p);
  void note_confinement(const Service& s, Process& p, std::string_view words);

  async::Loop& loop_;
  int programs_lock_;
  std::string status_path_;
  std::string program_directory_;
  std::vector<std::string> environment_;
  seconds stop_drain_time_{5};
  WallTime started_at_;
  Sockets sockets_;
  Fd board_;                         // the text of the status file, for penapi
  std::map<std::string, Fd> pages_;  // by label; those of former services too, so that no sum goes backwards
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<service::Skipped> skipped_;
  unsigned log_round_ = 0;   // how often the log was handed out
  unsigned log_opened_ = 0;  // the last round that every program has taken
  async::Event changed_;
  async::Loop::TimerHandle status_timer_;
  bool stopping_ = false;
};

}  // namespace pen::master
