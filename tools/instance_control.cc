#include "tools/instance_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/base/text.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/running.h"
#include "lib/suite/service/setup.h"
#include "lib/suite/service/standby.h"
#include "tools/check.h"
#include "tools/instance_master.h"
#include "tools/instance_status.h"
#include "tools/map_tool.h"
#include "tools/output.h"
#include "tools/queue_client.h"
#include "tools/reload.h"
#include "tools/tables.h"

namespace pen::tools {
namespace {

// It ends as soon as it hears of master's end.
constexpr seconds kKeeperEnds{5};

void warn(const std::string& text) { fail_with(EX_OK, "warning: " + text); }

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const auto& w : words) out.push_back(const_cast<char*>(w.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Reports settings that are met in another way.
void say_warnings(const config::Config& config) {
  for (const auto& p : config.problems()) {
    if (p.severity == config::Severity::warning) warn(p.message());
  }
}

/// Reports services that are read but not run, unless their work is done elsewhere.
void say_not_run(const config::Config& config) {
  const auto machine = service::real_machine(config.settings().daemon_directory);
  const auto plan = service::make_plan(config, machine);
  for (const auto& skipped : plan.skipped) {
    if (skipped.work_is_done) continue;
    warn("service " + skipped.label + " is not started: " + skipped.why);
  }
}

}  // namespace

int fail_with(int status, const std::string& text) {
  std::fprintf(stderr, "penstock: %s\n", text.c_str());
  return status;
}

int InstanceControl::start() {
  // If this cannot be found out here, master will report it: it takes the lock.
  const bool leased = config_.settings().standby_lease != config::StandbyLease::none;
  const auto standby = service::running_standby(config_.directory());
  const auto keeper = service::running_keeper(config_.directory());
  if (!keeper) warn("a keeper or a standby that runs would not be seen: " + keeper.error().message());
  if (standby && *standby)
    return fail_with(EX_UNAVAILABLE,
                     fmt::format("the mail system is already running, or waits as a standby (master pid {})",
                                 (*standby)->process.pid()));
  // With a lease another host's master may have the lock.
  const auto running = service::running_master(service::state_directory(config_.settings()));
  if (!leased && running && *running && !(*running)->gone_within(service::kDyingMaster)) {
    return fail_with(EX_UNAVAILABLE,
                     fmt::format("the mail system is already running (master pid {})", (*running)->pid()));
  }
  // The one of a master that was stopped a moment ago is about to end.
  if (keeper && *keeper && !(*keeper)->process.gone_within(service::kDyingMaster))
    return fail_with(EX_UNAVAILABLE, fmt::format("the mail system is already running ({})", describe(**keeper)));
  // As with any invalid value, the programs that need it would not start, and would keep all mail waiting.
  bool wrong = false;
  for (const auto& p : class_problems(config_)) {
    if (p.severity != config::Severity::error) continue;
    fail_with(EX_CONFIG, p.message());
    wrong = true;
  }
  if (wrong) return EX_CONFIG;
  say_what_is_wrong();
  return run_master();
}

void InstanceControl::say_what_is_wrong() {
  renew_stale_tables(config_);
  say_warnings(config_);
  say_not_run(config_);
  // A broken table keeps some mail waiting; not starting would keep all of it.
  const auto [errors, warnings] = faults(config_);
  for (const std::string& fault : errors) warn(fault);
  for (const std::string& fault : warnings) warn(fault);
}

int InstanceControl::run_master() {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) return fail_with(EX_OSERR, "pipe: " + Error::from_errno(errno).message());
  ::fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC);
  // What listens there keeps the descriptors of master.
  const std::string& programs = config_.settings().daemon_directory;
  const bool managed = std::getenv("NOTIFY_SOCKET") != nullptr;
  const bool older = !managed && ::access((programs + "/keeper").c_str(), F_OK) != 0 && errno == ENOENT;
  if (older) warn(programs + " has no keeper, as it is of an older version: if master dies its programs end with it");
  const std::string program = managed || older ? "master" : "keeper";
  const std::string path = programs + "/" + program;
  const std::vector<std::string> words = {program, "-c", config_.directory(), "-w", std::to_string(pipe_fds[1])};
  const auto argv = pointers(words);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_with(EX_OSERR, "fork: " + Error::from_errno(errno).message());
  if (pid == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    if (null > 2) ::close(null);
    if (::chdir("/") != 0) ::_exit(EX_OSERR);
    ::execv(path.c_str(), argv.data());
    ::_exit(EX_UNAVAILABLE);
  }
  ::close(pipe_fds[1]);
  std::string text;
  char part[512];
  for (ssize_t n = 0; (n = ::read(pipe_fds[0], part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
  if (text == "ok" || text.starts_with("standby")) {
    const auto master = own_master(config_);
    const std::string who = master && *master ? fmt::format(": master pid {}", (*master)->pid()) : "";
    print("started" + who + (text == "ok" ? "\n" : ", " + text + "\n"));
    return EX_OK;
  }
  int status = 0;
  if (text.starts_with("started")) return fail_with(EX_TEMPFAIL, text);
  if (::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    if (!text.empty()) return fail_with(WEXITSTATUS(status), text);
    // By a keeper whose master was killed.
    if (WEXITSTATUS(status) != EX_SOFTWARE)
      return fail_with(WEXITSTATUS(status),
                       "cannot run " + path + (program == "keeper" ? ", or master beside it" : ""));
  }
  return fail_with(EX_SOFTWARE, "master died while it was starting: see the log");
}

int InstanceControl::start_foreground() {
  say_what_is_wrong();
  const std::string path = config_.settings().daemon_directory + "/master";
  const std::vector<std::string> words = {"master", "-c", config_.directory(), "-f"};
  ::execv(path.c_str(), pointers(words).data());
  return fail_with(EX_UNAVAILABLE, path + ": " + Error::from_errno(errno).message());
}

int InstanceControl::end_master(int signo, milliseconds patience) {
  const auto master = own_master(config_);
  if (!master) return cannot_tell(master.error());
  auto found = service::running_keeper(config_.directory());
  // Master tells it, too, that its end is meant.
  if (!found) warn("a keeper that runs would not be seen: " + found.error().message());
  const std::optional<service::Keeping> keeper = found ? *std::move(found) : std::nullopt;
  if (!*master && !keeper) return fail_with(EX_UNAVAILABLE, "the mail system is not running");
  // The keeper first: no next master comes, if this one ends meanwhile or does not hear it.
  if (keeper)
    if (auto sent = keeper->process.signal(signo); !sent && !sent.error().is_errno(ESRCH))
      return fail_with(EX_NOPERM, sent.error().message());
  const service::Process& process = *master ? **master : keeper->process;
  if (auto sent = process.signal(signo); !sent && !sent.error().is_errno(ESRCH))
    return fail_with(EX_NOPERM, sent.error().message());
  if (!process.gone_within(patience))
    return fail_with(EX_TEMPFAIL,
                     fmt::format("{} pid {} has not ended yet", *master ? "master" : "keeper", process.pid()));
  if (keeper && !keeper->process.gone_within(kKeeperEnds))
    return fail_with(EX_TEMPFAIL, fmt::format("keeper pid {} has not ended yet", keeper->process.pid()));
  print("stopped\n");
  return EX_OK;
}

int InstanceControl::stop() { return end_master(SIGTERM, config_.settings().stop_drain_time + seconds(10)); }

int InstanceControl::abort() { return end_master(SIGQUIT, seconds(10)); }

int InstanceControl::reload() {
  const auto master = next_master(config_);
  if (!master) return cannot_tell(master.error());
  if (!*master) return say_no_master(config_);
  renew_stale_tables(config_);
  const auto [errors, warnings] = faults(config_);
  for (const std::string& fault : errors) fail_with(EX_CONFIG, fault);
  say_warnings(config_);
  say_not_run(config_);  // a port that was open closes
  for (const std::string& fault : warnings) warn(fault);
  if (!errors.empty()) return fail_with(EX_CONFIG, "not reloaded: the mail system goes on with what it has");
  if (waits_as_standby(config_)) {
    print("the standby reads its configuration when it takes over\n");
    return EX_OK;
  }
  return reload_and_wait(config_, **master);
}

int InstanceControl::flush() {
  const auto done = QueueClient("penstock", config_)
                        .ask(ipc::queue::Act{.request = 1,
                                             .verb = ipc::queue::Verb::flush,
                                             .all = true,
                                             .site = {},
                                             .queue_ids = {},
                                             .filter = {}},
                             [](auto&, auto&) {});
  if (done.outcome != ipc::queue::Outcome::ok) return fail_with(EX_TEMPFAIL, "flush: " + done.text);
  print(fmt::format("flushed: {} messages\n", done.count));
  return EX_OK;
}

}  // namespace pen::tools
