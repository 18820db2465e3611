// master: opens the sockets of an instance and keeps its programs running. See master(8).
//
// Started by penstock(1) with -c DIR and either -f (stay in the foreground) or -w FD (report on that
// descriptor: "ok", or a sentence that says what failed, and end of file).
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/base/log.h"
#include "lib/confine/apply.h"
#include "lib/service/lock.h"
#include "lib/service/setup.h"
#include "master/notify.h"
#include "master/supervisor.h"

namespace {

using namespace pen;

constexpr seconds kFormerPrograms{10};
constexpr seconds kReadyTime{30};
constexpr seconds kFormerSockets{2};

struct Command {
  std::string directory;
  int report = -1;
  bool help = false;
};

/// Tells who started us how it went, once.
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
  std::unique_ptr<master::Supervisor> supervisor;
  std::string directory;
  master::Notifier manager{"", microseconds(0)};  // who started us, if it is systemd or speaks as it does
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

async::Task<void> report_readiness(Master* m, Command* command) {
  auto ready = co_await m->supervisor->all_ready({.deadline = m->loop.now() + kReadyTime});
  m->supervisor->write_status();  // whoever is told now may look at it
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

void adopt_changes(Master& m) {
  auto config = config::load(m.directory);
  if (!config) {
    log::error("reload: {}; going on as before", config.error().message());
    return;
  }
  if (auto ok = service::open_log(config->settings(), "master", false); !ok) {
    log::error("reload: {}", ok.error().message());
  }
  log::info("reload -- version {}, configuration {}", PEN_VERSION, m.directory);
  if (auto ok = m.supervisor->adopt(*config); !ok) {
    log::error("reload: {}; going on as before", ok.error().message());
  }
}

void reload(Master& m) {
  told(m, m.manager.reloading(m.loop.clock().now()));
  adopt_changes(m);
  m.loop.spawn("reload", report_reload(&m));
}

/// Opens the sockets and starts the programs. The kernel closes what a killed program had open one after the other: the
/// lock on former programs may be free a moment before their sockets are.
Result<void> adopt_first(master::Supervisor& supervisor, const config::Config& config) {
  const auto end = std::chrono::steady_clock::now() + kFormerSockets;
  for (bool told = false;; told = true) {
    auto ok = supervisor.adopt(config);
    if (ok || !ok.error().is_errno(EADDRINUSE) || std::chrono::steady_clock::now() >= end) return ok;
    if (!told) log::info("{}: tried again for {} s", ok.error().message(), kFormerSockets.count());
    std::this_thread::sleep_for(milliseconds(10));  // nothing tells of the end of another's socket
  }
}

Command parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "-c" && i + 1 < argc) {
      command.directory = argv[++i];
    } else if (word == "-w" && i + 1 < argc) {
      command.report = std::atoi(argv[++i]);
    } else if (word != "-f") {
      command.help = true;
    }
  }
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  Command command = parse(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("master %s\n", PEN_VERSION);
    return EX_OK;
  }
  if (command.help || argc == 1) {
    std::printf(
        "master: keeps the programs of an instance running; see master(8).\n"
        "It is started by \"penstock -c DIR start\". Options: -c DIR -f -w FD --help --version\n");
    return argc > 1 && std::strcmp(argv[1], "--help") == 0 ? EX_OK : EX_USAGE;
  }
  ::signal(SIGPIPE, SIG_IGN);
  if (command.report >= 0) ::fcntl(command.report, F_SETFD, FD_CLOEXEC);
  // Umask before the first file; sockets and directories get their modes by name.
  ::umask(022);
  auto manager = master::Notifier::from_environment();

  auto config = config::load(config::config_directory(command.directory));
  if (!config) return refuse(command, EX_CONFIG, config.error().message());
  const config::Settings& settings = config->settings();
  if (auto ok = master::prepare_directories(*config); !ok) {
    return refuse(command, EX_CONFIG, ok.error().message());
  }
  auto locks = service::take_locks(service::state_directory(settings), kFormerPrograms);
  if (!locks) {
    const bool held = locks.error().is(service::LockError::held);
    return refuse(command, held ? EX_UNAVAILABLE : EX_TEMPFAIL, locks.error().message());
  }
  if (auto ok = service::open_log(settings, "master", false); !ok) {
    return refuse(command, EX_CONFIG, ok.error().message());
  }
  service::raise_descriptor_limit();
  log::info("daemon started -- version {}, configuration {}", PEN_VERSION, config->directory());
  if (::geteuid() != 0) {
    log::info(
        "running as uid {}, not root: programs keep that identity, mail for other users "
        "cannot be delivered to their mailboxes",
        ::geteuid());
  }

  for (const std::string& missing : confine::kernel_offers().missing()) log::info("confinement: {}", missing);

  Master m;
  m.directory = config->directory();
  m.manager = std::move(manager);
  m.supervisor = std::make_unique<master::Supervisor>(m.loop, locks->programs.get(),
                                                      service::state_directory(settings) + "/master.status");
  const auto stop_once = [&m](int) {
    if (std::exchange(m.stopping, true)) return;
    log::info("terminating on signal");
    told(m, m.manager.stopping());
    m.loop.spawn("stop", stop(&m));
  };
  for (const int signo : {SIGTERM, SIGINT}) (void)m.loop.on_signal(signo, stop_once);
  // The programs notice the end of their status sockets and end at once.
  (void)m.loop.on_signal(SIGQUIT, [](int) { std::_Exit(EX_OK); });
  (void)m.loop.on_signal(SIGCHLD, [&m](int) { m.supervisor->collect(); });
  (void)m.loop.on_signal(SIGHUP, [&m](int) {
    if (!m.stopping) reload(m);
  });
  (void)m.loop.on_signal(SIGUSR2, [&m](int) { open_log_again(m); });
  if (auto ok = adopt_first(*m.supervisor, *config); !ok) {
    return refuse(command, EX_OSERR, ok.error().message());
  }
  arm_watchdog(m);
  m.loop.spawn("readiness", report_readiness(&m, &command));
  m.loop.hold();
  m.loop.run();
  log::info("stopped");
  std::fflush(nullptr);
  std::_Exit(EX_OK);
}
