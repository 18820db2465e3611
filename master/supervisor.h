#pragma once
/// The services of an instance: starts, watches, restarts, reloads and stops their programs.
///
/// A service is in one of these states (and may have old processes that still drain after a reload):
///   state      has               leaves it when
///   asleep     sockets           somebody connects, or its wake-up time comes: starting
///   starting   a process         it says "ready": serving; it dies: paced
///   serving    a process         it dies: paced (at_once) or asleep
///   paced      a time            the time has come: starting
///   replacing  an old process    at a reload: the new one serves, or does not come to: serving. Exclusive services:
///                                the old one has ended: starting
///   stopped    nothing           -
/// An upgrade starts the new program beside the old one and lets the old one finish once the new one is ready; one that
/// is not in time ends, and the old one stays. Exclusive services cannot have two: the old program ends first, and its
/// file is held, so that it can be started again (docs/upgrade.md).
/// Thread:  the loop's; master never has another.
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/readiness.h"
#include "lib/base/async/sync.h"
#include "lib/suite/service/helper_link.h"
#include "lib/suite/service/launch.h"
#include "master/badge_maker.h"
#include "master/handover.h"
#include "master/keeper.h"
#include "master/sockets.h"

namespace pen::master {

class Supervisor {
 public:
  /// programs_lock: see lock.h. status_path: the file for the state; empty: none. keeper outlives this.
  Supervisor(async::Loop& loop, int programs_lock, std::string status_path, Keeper& keeper);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts the services of a configuration, or changes over to it (reload). An error changes nothing.
  /// keep: programs that were taken over stay as they are.
  Result<void> adopt(const config::Config& config, bool keep = false);
  /// Takes over the programs and descriptors of a former master, of which some may be gone by now. children: this is
  /// the same process, so the programs are its children. Then adopt() with keep = true.
  void take_over(const Handover& former, Descriptors descriptors, bool children);
  /// For the status file: adopt() follows; or the configuration is not taken.
  void reload_begins();
  void reload_refused(std::string why);
  /// What the next master needs; with the numbers of the descriptors, which it lets through execve(), or without.
  Handover handover(bool through_exec);
  /// Closes the descriptors to execve() again, which failed.
  void stay();
  /// Opens what a configuration needs besides what is open. An error changes nothing.
  Result<void> open_sockets(const config::Config& config);
  /// Waits until what was said to programs is out.
  async::Task<void> quiesce(async::Until until);

  /// An upgrade, for the status file: what is done, line by line, and how it ended.
  void upgrade_begins(std::string to);
  void upgrade_step(const std::string& line);
  void upgrade_ends(bool good, const std::string& line);
  bool upgrading() const { return upgrade_.under_way; }
  /// Replaces every program that runs by what its file is now, one service after the other. Returns the services
  /// that kept their old program, or do not serve. patience: for each program.
  async::Task<std::vector<std::string>> replace_programs(milliseconds patience);

  /// Of the lease on the queue: for the next master; held is a lock (-1: none), page is for qmgr as well.
  void hold_lease(std::string token, int held, int page);
  /// Kills every program; returns when none is left.
  async::Task<void> cut();
  /// Master ends at once, and its programs with it.
  void abandon();
  /// After stop(): the service manager keeps nothing for a next master, which a restart would else be given.
  void leave_nothing();
  /// SIGCHLD.
  void collect();
  /// Hands every program the log file that master has opened again. When all that had the former one have answered or
  /// ended, status_json() counts one more log_opened: nobody writes to the former file any more.
  void hand_out_log(int file);
  /// Sends SIGTERM to every program, and SIGKILL after stop_drain_time and a second. Returns when no process is left.
  async::Task<void> stop();

  /// Waits until every service that starts at once serves. Errors: timed_out, with the first service that does not.
  async::Task<Result<void>> all_ready(async::Until until);
  /// Shows in the status file that master answers (service::kAskMaster).
  void answer();
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
  void note_log_taken();

  void adopt_service(service::Planned planned, bool keep);
  /// Starts the program, unless that of a former master goes on (keep), or has to end first.
  void run(Service& s, bool keep);
  /// Makes the pages of counters that services lack.
  Result<void> make_pages(const std::vector<service::Planned>& services);
  /// What penapi reads: the board, then the pages. One that cannot be opened is left out, with a warning.
  std::vector<Fd> pages_to_read() const;
  void start(Service& s);
  /// A socket to the process that stays root, for a program that is about to be started. None: there is no such
  /// process; the log says why.
  Fd introduce(const std::string& program, const service::Arguments& arguments);
  /// What the program shows others and knows of them. None: all have one account, or it cannot be handed over.
  Fd badges_for(const Service& s) const;
  /// Starts a program of the service; nullptr: it cannot be started, and the log says why.
  Process* launch_program(Service& s);
  Process* add_process(Service& s, std::unique_ptr<Process> p);
  /// Ends what it replaces.
  void promote(Service& s, Process& fresh);
  async::Task<std::string> replace_one(Service* s, milliseconds patience);
  async::Task<std::string> replace_exclusive(Service* s, milliseconds patience);
  async::Task<bool> serves(Service* s, async::Until until);
  /// As process 1, in a container: what others leave behind is a child of this process.
  void reap_strangers();
  void save_state();
  void settle_replacement(Service& s);
  /// An exclusive program's successor waits for it, but not for ever.
  void bound_end(Process& p);
  void sleep_or_start(Service& s);
  void retire(Service& s);
  /// Has a new program take the place of one that serves, which goes on where that does not come to serve.
  static async::Task<void> change_over(Supervisor* self, Service* s);
  void give_up_candidates(Service& s);
  void start_if_ended(const std::string& label);
  void ended(Service& s, std::size_t process, int wait_status);
  void set_state(Service& s, State state);
  void arm_wakeup(Service& s);
  /// Sends SIGTERM to the processes of some services, SIGKILL at the deadline. Returns when they are gone.
  async::Task<void> end_all(std::function<bool(const Service&)> which, async::Until until);
  static async::Task<void> watch(Supervisor* self, Service* s);
  static async::Task<void> listen(Supervisor* self, Service* s, Process* p);
  static async::Task<void> await_end(Supervisor* self, Service* s, Process* p);
  void note_words(Service& s, Process& p, std::string_view words);
  void hear_last_words(Service& s, Process& p);

  async::Loop& loop_;
  int programs_lock_;
  std::string status_path_;
  std::string program_directory_, config_directory_;
  service::HelperLink helper_;
  std::vector<std::string> environment_;
  // Without root every program is the user's, who may do all that programs may.
  std::optional<BadgeMaker> badges_;
  seconds stop_drain_time_{5};
  milliseconds patience_{30000};  // upgrade_program_timeout, for a reload
  WallTime started_at_;
  Keeper& keeper_;
  Sockets sockets_;
  std::string lease_;
  int lease_held_ = -1, lease_page_ = -1;
  std::optional<StateMemory> memory_;  // what the next master finds
  Fd board_;                           // the text of the status file, for penapi
  std::map<std::string, Fd> pages_;    // by label; those of former services too, so that no sum goes backwards
  std::map<std::string, std::string> page_names_;
  struct Upgrade {
    unsigned number = 0;                                   // how many began
    bool under_way = false, good = false, became = false;  // became: master is the new version
    std::string from, to;
    std::vector<std::string> lines;
    bool former_unbadged = false;  // of a version in which programs have no badges
  } upgrade_;
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<service::Planned> planned_;  // all of the configuration
  std::vector<service::Skipped> skipped_;
  unsigned log_round_ = 0;  // how often the log was handed out
  unsigned asked_ = 0;      // how often it was asked whether it answers
  unsigned reloads_ = 0;    // how often one was asked for
  std::string reload_refused_;
  unsigned log_opened_ = 0;  // the last round that every program has taken
  async::Event changed_;
  async::Loop::TimerHandle status_timer_;
  bool stopping_ = false;
};

}  // namespace pen::master
