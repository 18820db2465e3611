// master: opens the sockets of an instance and keeps its programs running. See master(8).
//
// Started by penstock(1) with -c DIR and either -f (stay in the foreground) or -w FD (report on that
// descriptor: "ok", or a sentence that says what failed, and end of file).
//
// SIGUSR1 makes master its new version: it asks that one (--check-handover) and becomes it, with --adopt FD, the memory
// that holds the state, and --former FD, the program to go back to. docs/upgrade.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "lib/base/async/readiness.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/version.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/service/lease_place.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/setup.h"
#include "lib/suite/service/standby.h"
#include "master/keeper.h"
#include "master/lease.h"
#include "master/notify.h"
#include "master/succession.h"
#include "master/supervisor.h"

namespace {

using namespace pen;

constexpr seconds kFormerPrograms{10};
constexpr seconds kReadyTime{30};
constexpr seconds kFormerSockets{2};
constexpr seconds kQuiet{2};

struct Command {
  std::string directory;
  int report = -1;
  int adopt = -1, former = -1;
  std::string refused;  // why the new version gave back
  unsigned check = 0, speaks = 0;
  bool help = false;
};

/// Reports to the program that started us how it went, once.
void report(Command& command, const std::string& text) {
  if (command.report < 0) return;
  const ssize_t n = ::write(command.report, text.data(), text.size());
  (void)n;  // nobody may be listening any more
  ::close(std::exchange(command.report, -1));
}

int refuse(Command& command, int status, const std::string& why) {
  log::error("{}", why);
  report(command, why);
  return status;
}

struct Master {
  async::Loop loop;
  std::string directory;
  master::Notifier manager{"", microseconds(0)};  // our starter, if it is systemd, or a keeper, which speaks as it does
  master::Keeper keeper{manager};
  std::unique_ptr<master::Supervisor> supervisor;
  service::Locks locks;
  std::unique_ptr<master::Lease> lease;  // nullptr: none is needed
  Fd door;
  bool has_lease = false;
  std::string waits_for;
  // A standby that is to become another version: how often it was not done, and why the last time.
  bool asks_successor = false;
  unsigned refusals = 0;
  std::string refusal;
  const std::string life = fmt::format("{:016x}", secure_random_u64());  // another after execve()
  bool reload_wanted = false;                                            // after the upgrade
  bool manager_missed = false;
  async::Loop::TimerHandle watchdog;
  bool stopping = false;
};

/// Says once that the service manager does not hear us.
void told(Master& m, const Result<void>& sent) {
  if (sent || std::exchange(m.manager_missed, true)) return;
  log::warning("the service manager cannot be told how it goes: {}", sent.error().message());
}

/// The watchdog looks at this loop, which starts programs and answers signals; what a program does is seen by its end.
void arm_watchdog(Master& m) {
  if (m.manager.watchdog().count() == 0) return;
  told(m, m.manager.alive());
  m.watchdog = m.loop.call_at(m.loop.now() + m.manager.watchdog(), [&m] { arm_watchdog(m); });
}

/// Without its keeper nothing outlives this master.
async::Task<void> watch_keeper(Master* m, Fd process) {
  async::Readiness end(m->loop, process.get());
  if (!(co_await end.readable())) co_return;
  log::warning(
      "the keeper, pid {}, has ended: the mail system goes on, and from now on ends with master. A stop and a start "
      "bring another one",
      m->manager.keeper());
  m->manager = master::Notifier("", microseconds(0));
  if (m->supervisor) m->supervisor->write_status();
}

/// A keeper that has ended already is no parent of ours.
void find_keeper(Master& m) {
  const pid_t keeper = m.manager.keeper();
  if (keeper == 0) return;
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, keeper, 0)));
  if (!process || ::getppid() != keeper) {
    log::warning("the keeper, pid {}, has ended: the mail system ends with this master", keeper);
    m.manager = master::Notifier("", microseconds(0));
    return;
  }
  m.loop.spawn("keeper", watch_keeper(&m, std::move(process)));
}

async::Task<void> report_readiness(Master* m, Command* command) {
  auto ready = co_await m->supervisor->all_ready({.deadline = m->loop.now() + kReadyTime});
  m->supervisor->write_status();  // a program that hears of it now may look at it
  if (ready) {
    log::info("all services are ready");
    report(*command, "ok");
    told(*m, m->manager.ready(m->supervisor->summary()));
  } else {
    log::warning("{}", ready.error().message());
    report(*command, "started, but " + ready.error().context() + ": see the log");
    // Not a failed start: what serves goes on serving, and master goes on trying.
    told(*m, m->manager.ready("started, but " + ready.error().context()));
  }
}

async::Task<void> report_reload(Master* m) {
  const auto ready = co_await m->supervisor->all_ready({.deadline = m->loop.now() + kReadyTime});
  if (m->stopping) co_return;
  told(*m, m->manager.ready(ready ? m->supervisor->summary() : "reloaded, but " + ready.error().context()));
}

async::Task<void> stop(Master* m) {
  co_await m->supervisor->stop();
  m->supervisor->leave_nothing();
  if (m->lease) co_await m->lease->release();
  m->loop.stop();
}

/// The former file may be compressed or sent away once every program has the new one.
void open_log_again(Master& m) {
  if (auto ok = log::reopen(); !ok) {
    log::error("log rotation: {}; going on with the former file", ok.error().message());
    return;
  }
  if (const int file = log::descriptor(); file >= 0) m.supervisor->hand_out_log(file);
}

void say(const std::string& text) { log::info("{}", text); }

/// Empty: the configuration is taken; else why not.
std::string adopt_changes(Master& m) {
  auto config = config::load(m.directory);
  if (!config) return config.error().message();
  if (auto ok = service::apply_settings(config->settings()); !ok) return ok.error().message();
  if (auto ok = service::open_log(config->settings(), "master", false); !ok) {
    log::error("reload: {}", ok.error().message());
  }
  log::info("reload -- version {}, configuration {}", version(), m.directory);
  if (auto ok = master::prepare_data(*config, say); !ok) log::error("reload: {}", ok.error().message());
  if (auto ok = m.supervisor->adopt(*config); !ok) return ok.error().message();
  return {};
}

void reload(Master& m) {
  if (m.supervisor->upgrading()) {
    m.reload_wanted = true;
    return;
  }
  told(m, m.manager.reloading(m.loop.clock().now()));
  m.supervisor->reload_begins();
  if (const std::string why = adopt_changes(m); !why.empty()) {
    log::error("reload: {}; going on as before", why);
    m.supervisor->reload_refused(why);
  }
  m.loop.spawn("reload", report_reload(&m));
}

/// Does not return but for an error. What was said to programs is out.
Error become_another(Master& m, const std::string& file, int former, const std::string& refused) {
  const master::Succession next{.file = file,
                                .directory = m.directory,
                                .former = former,
                                .refused = refused,
                                .environment = m.manager.environment()};
  master::Handover state = m.supervisor->handover(true);
  state.numbers[master::kMasterLock] = m.locks.master.get();
  state.directory = m.directory;
  Error error = master::succeed(next, std::move(state));
  m.supervisor->stay();
  return error;
}

async::Task<void> upgrade(Master* m) {
  if (m->stopping || m->supervisor->upgrading()) co_return;
  master::Supervisor& supervisor = *m->supervisor;
  supervisor.upgrade_begins("");
  told(*m, m->manager.reloading(m->loop.clock().now()));
  const auto no = [m](const std::string& why) {
    m->supervisor->upgrade_ends(false, why + "; the mail system goes on as it was");
    told(*m, m->manager.ready("not upgraded: " + why));
    if (std::exchange(m->reload_wanted, false)) reload(*m);
  };
  auto config = config::load(m->directory);
  if (!config) co_return no(config.error().message());
  const std::string file = config->settings().daemon_directory + "/master";
  auto answer = co_await master::ask_successor(m->loop, file, *config);
  if (m->stopping) co_return;
  if (!answer) co_return no("the new version cannot take over: " + answer.error().message());
  supervisor.upgrade_step(fmt::format("version {} takes over from {}", *answer, version()));
  // A port that another has keeps the old version, which can still say so.
  if (auto ok = supervisor.open_sockets(*config); !ok) co_return no(ok.error().message());
  const Fd former(::open("/proc/self/exe", O_PATH));
  if (!former) co_return no("open /proc/self/exe: " + Error::from_errno(errno).message());
  co_await supervisor.quiesce({.deadline = m->loop.now() + kQuiet});
  if (m->stopping) co_return;
  co_return no(file + ": " + become_another(*m, file, former.get(), "").message());
}

/// The new version's half: master is it, the programs follow.
async::Task<void> replace_programs(Master* m, milliseconds patience) {
  const auto kept = co_await m->supervisor->replace_programs(patience);
  if (m->stopping) co_return;
  std::string text;
  for (const std::string& label : kept) text += (text.empty() ? "" : ", ") + label;
  if (kept.empty()) {
    m->supervisor->upgrade_ends(true, fmt::format("done: version {} runs", version()));
  } else {
    m->supervisor->upgrade_ends(false, fmt::format("version {} runs, but for {}", version(), text));
  }
  told(*m, m->manager.ready(m->supervisor->summary()));
  if (std::exchange(m->reload_wanted, false)) reload(*m);
}

// The lease on the queue: standby_lease.

async::Task<void> answer_tools(Master* m) {
  async::Readiness door(m->loop, m->door.get());
  while (co_await door.readable()) {
    const nlohmann::json text = {{"state", m->supervisor ? "active" : "standby"},
                                 {"why", m->waits_for},
                                 {"version", version()},
                                 {"life", m->life},
                                 {"refusals", m->refusals},
                                 {"refusal", m->refusal}};
    service::answer_at_door(m->door.get(), text.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
}

/// A standby is ready when it waits.
void waits(Master& m, Command& command, const std::string& why) {
  if (m.waits_for == why) return;
  m.waits_for = why;
  log::info("standby: {}", why);
  report(command, "standby: " + why);
  told(m, m.manager.ready("standby: " + why));
}

/// A standby has nothing to hand over: it begins anew as the version that is installed now, if that one can run.
async::Task<void> upgrade_standby(Master* m) {
  if (m->stopping || std::exchange(m->asks_successor, true)) co_return;
  const auto no = [m](const std::string& why) {
    log::error("upgrade: {}; the standby waits as it did", why);
    ++m->refusals;
    m->refusal = why;
    m->asks_successor = false;
  };
  auto config = config::load(m->directory);
  if (!config) co_return no(config.error().message());
  if (config->settings().standby_lease == config::StandbyLease::none) co_return no("standby_lease is none now");
  const std::string file = config->settings().daemon_directory + "/master";
  const auto answer = co_await master::ask_successor(m->loop, file, *config, master::Ask::begins_anew);
  if (m->stopping) co_return;
  if (!answer) co_return no("the new version cannot be used: " + answer.error().message());
  if (m->has_lease) co_return no("the lease on the queue has come meanwhile");
  log::info("upgrade: the standby becomes version {}", *answer);
  std::fflush(nullptr);
  co_return no(master::begin_anew(m->directory, m->manager.environment(), file).message());
}

async::Task<void> acquire_lease(Master* m, Command* command) {
  co_await m->lease->acquire([m, command](const std::string& why) { waits(*m, *command, why); });
  m->has_lease = true;
}

/// Another host may run the queue from now on, so nothing of it runs here. Master begins anew, as a standby.
async::Task<void> keep_lease(Master* m) {
  const Error why = co_await m->lease->keep();
  log::error("{}: every program ends at once", why.message());
  if (m->supervisor) {
    m->supervisor->abandon();
    co_await m->supervisor->cut();
    m->supervisor->leave_nothing();  // the service manager's copy of a lock would keep it
  }
  if (m->stopping) {
    m->loop.stop();
    co_return;
  }
  log::fatal("cannot begin anew: {}", master::begin_anew(m->directory, m->manager.environment()).message());
}

/// Takes the lease of the former master of this host, if it still holds, or waits for it. What was inherited is given
/// up with the lease.
Result<void> take_lease(Master& m, Command& command, const config::Config& config, master::Inherited& inherited) {
  PEN_TRY_ASSIGN(m.lease, master::Lease::make(m.loop, config));
  if (!m.lease) return {};
  const config::Settings& settings = config.settings();
  if (settings.standby_lease == config::StandbyLease::file) {
    const std::string doubt = service::doubt_of_lock(settings.queue_directory, settings.standby_lease_time);
    if (!doubt.empty()) log::warning("{}", doubt);
  }
  if (auto door = service::open_standby_door(m.directory)) {
    m.door = *std::move(door);
    m.loop.spawn("tools", answer_tools(&m));
  } else {
    log::warning("{}", door.error().message());
  }
  if (inherited.state && !inherited.state->lease.empty()) {
    const auto resumed = m.lease->resume(inherited.state->lease, inherited.take_lock(master::kLease),
                                         inherited.take_lock(master::kLeasePage));
    m.has_lease = resumed.has_value();
  }
  if (!m.has_lease) {
    // The ends of the status sockets: programs read it when the service manager's copies are gone as well.
    for (const auto& [name, fd] : inherited.descriptors) m.keeper.forget(name);
    for (const char* name : {master::kLease, master::kLeasePage}) m.keeper.forget(name);
    inherited.descriptors.clear();
    inherited.state.reset();
    m.loop.spawn("lease", acquire_lease(&m, &command));
    while (!m.has_lease) m.loop.run_once(seconds(1));
    log::info("the lease on the queue is ours");
  }
  m.loop.spawn("lease", keep_lease(&m));
  return {};
}

/// With a lease the former host may still be ending, or its file system may not know yet that it has gone.
Result<service::Locks> take_locks(Master& m, Command& command, const std::string& state, Fd former) {
  if (!m.lease) return service::take_locks(state, kFormerPrograms, std::move(former));
  for (;;) {
    auto locks = service::take_locks(state, seconds(0), std::move(former));
    if (locks) return locks;
    using enum service::LockError;
    if (!locks.error().is(held) && !locks.error().is(former_programs)) return locks;
    waits(m, command, "the lease is ours, but " + locks.error().message());
    m.loop.run_once(milliseconds(100));
    former = Fd();
  }
}

/// Opens the sockets and starts the programs. The kernel closes what a killed program had open one after the other: the
/// lock on former programs may be free a moment before their sockets are.
Result<void> adopt_first(master::Supervisor& supervisor, const config::Config& config, bool keep) {
  const auto end = std::chrono::steady_clock::now() + kFormerSockets;
  for (bool told = false;; told = true) {
    auto ok = supervisor.adopt(config, keep);
    if (ok || !ok.error().is_errno(EADDRINUSE) || std::chrono::steady_clock::now() >= end) return ok;
    if (!told) log::info("{}: tried again for {} s", ok.error().message(), kFormerSockets.count());
    std::this_thread::sleep_for(milliseconds(10));  // nothing tells of the end of another's socket
  }
}

/// The handlers come before the supervisor: a standby has none.
void handle_signals(Master& m) {
  const auto stop_once = [&m](int) {
    if (std::exchange(m.stopping, true)) return;
    log::info("terminating on signal");
    told(m, m.manager.stopping());
    if (!m.supervisor) std::_Exit(EX_OK);  // a standby, which has nothing
    m.loop.spawn("stop", stop(&m));
  };
  for (const int signo : {SIGTERM, SIGINT}) (void)m.loop.on_signal(signo, stop_once);
  // The programs notice the end of their status sockets and end at once.
  (void)m.loop.on_signal(SIGQUIT, [&m](int) {
    if (m.supervisor) m.supervisor->abandon();
    std::_Exit(EX_OK);
  });
  (void)m.loop.on_signal(SIGCHLD, [&m](int) {
    if (m.supervisor) m.supervisor->collect();
  });
  (void)m.loop.on_signal(SIGHUP, [&m](int) {
    if (m.supervisor && !m.stopping) reload(m);
  });
  (void)m.loop.on_signal(SIGUSR1,
                         [&m](int) { m.loop.spawn("upgrade", m.supervisor ? upgrade(&m) : upgrade_standby(&m)); });
  (void)m.loop.on_signal(SIGUSR2, [&m](int) {
    if (m.supervisor) open_log_again(m);
  });
  (void)m.loop.on_signal(service::kAskMaster, [&m](int) {
    if (m.supervisor) m.supervisor->answer();
  });
}

Command parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "-c" && i + 1 < argc) {
      command.directory = argv[++i];
    } else if (word == "-w" && i + 1 < argc) {
      command.report = std::atoi(argv[++i]);
    } else if (word == "--adopt" && i + 1 < argc) {
      command.adopt = std::atoi(argv[++i]);
    } else if (word == "--former" && i + 1 < argc) {
      command.former = std::atoi(argv[++i]);
    } else if (word == "--refused" && i + 1 < argc) {
      command.refused = argv[++i];
    } else if (word == "--check-handover" && i + 1 < argc) {
      command.check = static_cast<unsigned>(std::atoi(argv[++i]));
    } else if (word == "--speaks" && i + 1 < argc) {
      command.speaks = static_cast<unsigned>(std::atoi(argv[++i]));
    } else if (word != "-f") {
      command.help = true;
    }
  }
  return command;
}

/// The start of master, by itself or as the new version of the master that this process was.
class Start {
 public:
  explicit Start(Command command)
      : command_(std::move(command)), inherited_(master::inherit(command_.adopt, master::take_kept_descriptors())) {
    m_.manager = master::Notifier::from_environment();
  }

  /// Ends the process when the mail system has been stopped. Returns the exit status of a start that failed.
  int run() {
    if (!inherited_.trouble.empty() && becomes()) return give_up(EX_DATAERR, inherited_.trouble);
    if (auto ok = prepare(); !ok) return give_up(EX_CONFIG, ok.error().message());
    if (const int status = take_locks(); status != EX_OK) return status;
    if (auto ok = prepare_directories(); !ok) return give_up(EX_CONFIG, ok.error().message());
    say_what_starts();
    if (const int status = start_programs(); status != EX_OK) return status;
    let_serve();
    m_.loop.hold();
    m_.loop.run();
    log::info("stopped");
    std::fflush(nullptr);
    std::_Exit(EX_OK);
  }

 private:
  bool becomes() const { return command_.adopt >= 0; }

  /// The former version, which became this one, takes the mail system back if this one cannot go on.
  int give_up(int status, const std::string& why) {
    if (!becomes()) return refuse(command_, status, why);
    log::error("upgrade: {}", why);
    const Error error = master::give_back(command_.adopt, command_.former,
                                          inherited_.state ? inherited_.state->directory : command_.directory,
                                          m_.manager.environment(), why);
    return refuse(command_, status, "upgrade: the former version cannot go on either: " + error.message());
  }

  /// To where the queue may be this host's.
  Result<void> prepare() {
    PEN_TRY_ASSIGN(config_, config::load(config::config_directory(command_.directory)));
    PEN_TRY(service::apply_settings(settings()));
    m_.directory = config_->directory();
    handle_signals(m_);
    if (settings().standby_lease != config::StandbyLease::none) {
      master::let_signals_in();
      PEN_TRY(service::open_log(settings(), "master", false));
      find_keeper(m_);
    }
    // Before any lock: the manager's copies hold those, and the programs.
    for (const std::string& name : inherited_.unusable) m_.keeper.forget(name);
    if (settings().standby_lease != config::StandbyLease::none) {
      PEN_TRY(take_lease(m_, command_, *config_, inherited_));
    }
    upgraded_ = becomes() && inherited_.state.has_value();
    return master::prepare_state(*config_);
  }

  int take_locks() {
    if (upgraded_) {
      m_.locks = {.master = inherited_.take_lock(master::kMasterLock),
                  .programs = inherited_.take_lock(master::kProgramsLock)};
      return EX_OK;
    }
    auto locks =
        ::take_locks(m_, command_, service::state_directory(settings()), inherited_.take_lock(master::kProgramsLock));
    if (!locks) {
      const bool held = locks.error().is(service::LockError::held);
      return refuse(command_, held ? EX_UNAVAILABLE : EX_TEMPFAIL, locks.error().message());
    }
    m_.locks = *std::move(locks);
    return EX_OK;
  }

  Result<void> prepare_directories() {
    PEN_TRY(service::open_log(settings(), "master", false));
    const auto programs = inherited_.state ? master::Programs::run : master::Programs::none;
    PEN_TRY(master::prepare_directories(*config_, programs, say));
    service::raise_descriptor_limit();
    if (!m_.lease) find_keeper(m_);
    return {};
  }

  void say_what_starts() const {
    log::info("daemon started -- version {}, configuration {}", version(), m_.directory);
    if (!inherited_.trouble.empty()) log::warning("{}: every program is started anew", inherited_.trouble);
    if (::geteuid() != 0) {
      log::info(
          "running as uid {}, not root: programs keep that identity, mail for other users "
          "cannot be delivered to their mailboxes, and one program can pass for another (docs/who-may-talk.md)",
          ::geteuid());
    }
    for (const std::string& missing : confine::kernel_offers().missing()) log::info("confinement: {}", missing);
  }

  int start_programs() {
    m_.supervisor = std::make_unique<master::Supervisor>(
        m_.loop, m_.locks.programs.get(), service::state_directory(settings()) + "/master.status", m_.keeper);
    if (m_.lease) m_.supervisor->hold_lease(m_.lease->token(), m_.lease->held(), m_.lease->page());
    const bool keep = inherited_.state.has_value();
    if (keep) {
      log::info("{} programs of a former master, version {}, go on", inherited_.programs(), inherited_.state->version);
      for (const Fd* fd : {&m_.locks.master, &m_.locks.programs}) ::fcntl(fd->get(), F_SETFD, FD_CLOEXEC);
      m_.supervisor->take_over(*inherited_.state, std::move(inherited_.descriptors), upgraded_);
    }
    auto ok = adopt_first(*m_.supervisor, *config_, keep);
    if (ok) return EX_OK;
    if (!upgraded_) return refuse(command_, EX_OSERR, ok.error().message());
    const Error error = become_another(m_, "", command_.former, ok.error().message());
    return refuse(command_, EX_OSERR, "upgrade: the former version cannot go on either: " + error.message());
  }

  void let_serve() {
    arm_watchdog(m_);
    m_.loop.spawn("readiness", report_readiness(&m_, &command_));
    if (upgraded_ && command_.refused.empty()) {
      m_.loop.spawn("upgrade", replace_programs(&m_, settings().upgrade_program_timeout));
    } else if (upgraded_) {
      m_.supervisor->upgrade_ends(false,
                                  "the new version gave back: " + command_.refused + "; the mail system goes on");
    }
    if (upgraded_ && command_.former >= 0) ::close(command_.former);
    master::let_signals_in();
    m_.loop.post([this] { m_.supervisor->collect(); });  // programs that ended between the versions
  }

  const config::Settings& settings() const { return config_->settings(); }

  Command command_;
  master::Inherited inherited_;  // before what opens files
  std::optional<config::Config> config_;
  Master m_;
  bool upgraded_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  Command command = parse(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("master %s\n", std::string(version()).c_str());
    return EX_OK;
  }
  if (command.help || argc == 1) {
    std::printf(
        "master: keeps the programs of an instance running; see master(8).\n"
        "It is started by \"penstock -c DIR start\". Options: -c DIR -f -w FD --help --version\n");
    return argc > 1 && std::strcmp(argv[1], "--help") == 0 ? EX_OK : EX_USAGE;
  }
  ::signal(SIGPIPE, SIG_IGN);
  if (command.check != 0) return master::check_handover(command.directory, command.check, command.speaks);
  if (command.report >= 0) ::fcntl(command.report, F_SETFD, FD_CLOEXEC);
  // Umask before the first file; sockets and directories get their modes by name.
  ::umask(022);
  return Start(std::move(command)).run();
}
