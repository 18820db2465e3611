#include "keeper/children.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/service/log_settings.h"

namespace pen::keeper {
namespace {

constexpr int kFirst = 3;  // sd_listen_fds(3)

/// A process of its own; 0 in it. Signals that the keeper waits for act on it, but for those that master must know
/// first: a reload that is asked for at once waits until it does.
pid_t leave() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  sigset_t later;
  ::sigemptyset(&later);
  for (const int signo : {SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&later, signo);
  ::sigprocmask(SIG_SETMASK, &later, nullptr);
  return 0;
}

Place now(const Place& known) {
  auto place = look(known.directory);
  return place ? *std::move(place) : known;
}

/// In the child. Each number may be one that another descriptor has: first all go out of the way.
bool place_descriptors(const Store& kept) {
  const int count = static_cast<int>(kept.size());
  std::vector<int> high;
  for (const auto& [name, fd] : kept.all()) high.push_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirst + count));
  for (int i = 0; i < count; ++i)
    if (high[static_cast<std::size_t>(i)] < 0 || ::dup2(high[static_cast<std::size_t>(i)], kFirst + i) < 0)
      return false;
  return true;
}

void set_environment(const std::string& notify, pid_t keeper, const Store& kept) {
  ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
  ::setenv("PENSTOCK_KEEPER", std::to_string(keeper).c_str(), 1);
  if (kept.size() == 0) return;
  ::setenv("LISTEN_FDS", std::to_string(kept.size()).c_str(), 1);
  ::setenv("LISTEN_FDNAMES", kept.names().c_str(), 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
}

[[noreturn]] void become_master(const Place& place, const std::string& notify, pid_t keeper, const Store& kept,
                                int report) {
  set_environment(notify, keeper, kept);
  if (!place_descriptors(kept)) ::_exit(EX_OSERR);
  std::vector<std::string> words = {"master", "-c", place.directory};
  if (report >= 0) words.insert(words.end(), {"-w", std::to_string(report)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(place.master.c_str(), argv.data());
  ::_exit(EX_UNAVAILABLE);
}

}  // namespace

Result<Place> look(const std::string& directory) {
  PEN_TRY_ASSIGN(const config::Config config, config::load(config::config_directory(directory)));
  const config::Settings& settings = config.settings();
  Place place{.directory = config.directory(), .master = settings.daemon_directory + "/master", .log = {}, .lease = {}};
  if (settings.standby_lease != config::StandbyLease::none) place.lease = settings.standby_lease_time;
  PEN_TRY_ASSIGN(place.log, service::log_options(settings, "keeper", false));
  return place;
}

pid_t run_master(const Place& known, const std::string& notify, const Store& kept, int report) {
  const pid_t keeper = ::getpid(), pid = leave();
  if (pid == 0) become_master(report >= 0 ? known : now(known), notify, keeper, kept, report);
  return pid;
}

pid_t say(const Place& known, log::Level level, const std::string& text) {
  if (const pid_t pid = leave(); pid != 0) return pid;
  const Place place = now(known);
  if (auto ok = log::open(place.log); !ok) (void)log::open(known.log);
  log::write(level, text);
  ::_exit(EX_OK);
}

}  // namespace pen::keeper
