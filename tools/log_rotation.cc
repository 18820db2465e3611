#include "tools/log_rotation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "lib/base/date.h"
#include "lib/base/file_lock.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/running.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

// A program takes the new file in its next turn; one that is busy longer is stuck.
constexpr seconds kPatience{30};

/// How often every program has taken a new log file; nullopt: this master cannot hand one out, or says nothing yet.
std::optional<unsigned> log_opened(const std::string& state) {
  const std::ifstream file(state + "/master.status");
  std::ostringstream text;
  text << file.rdbuf();
  const auto read = nlohmann::json::parse(text.str(), nullptr, false);
  if (!read.is_object() || !read.contains("log_opened") || !read["log_opened"].is_number_unsigned()) return {};
  return read["log_opened"].get<unsigned>();
}

/// Waits until master's status file counts beyond `before`. The kernel tells of each new status file.
Result<bool> every_program_has_it(const Fd& changes, const std::string& state, unsigned before) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (const auto now = log_opened(state); now && *now > before) return true;
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{changes.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return fail_errno("poll");
    char events[4096];
    (void)!::read(changes.get(), events, sizeof events);  // what changed is read above
  }
}

/// Runs the compressor; its exit status.
Result<int> compress(const std::string& command, const std::string& path) {
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    ::execlp(command.c_str(), command.c_str(), path.c_str(), static_cast<char*>(nullptr));
    ::_exit(EX_UNAVAILABLE);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno("wait for " + command);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A file of that name, or of that name and a compressor's ending (.gz, .zst, …); "": there is none.
std::string taken_name(const std::string& path) {
  const std::filesystem::path wanted(path);
  const std::string name = wanted.filename().string();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(wanted.parent_path(), error)) {
    const std::string other = entry.path().filename().string();
    if (other == name || other.starts_with(name + ".")) return entry.path().string();
  }
  return {};
}

/// The running programs go over to a new file; what they still write to the former one is in it when this returns.
/// Returns EX_OK, or the status of what was reported.
int hand_over(const service::Process& master, const Fd& changes, const std::string& state, unsigned before,
              const std::string& former) {
  if (auto sent = master.signal(SIGUSR2); !sent && !sent.error().is_errno(ESRCH))
    return fail_with(EX_NOPERM, sent.error().message());
  auto done = every_program_has_it(changes, state, before);
  if (!done) return fail_with(EX_OSERR, done.error().message());
  if (*done || master.gone_within({})) return EX_OK;
  return fail_with(EX_TEMPFAIL,
                   fmt::format("a program still writes to {} after {} s, so it is not compressed; see \"penstock "
                               "status\" for one that does not answer",
                               former, kPatience.count()));
}

}  // namespace

std::string rotated_name(const std::string& path, const std::string& suffix, std::time_t now) {
  const std::string name = local_text(WallTime(seconds(now)), suffix.c_str());
  if (name.empty() || name.contains('/')) return {};
  return path + "." + name;
}

int rotate_log(const config::Config& config) {
  const config::Settings& settings = config.settings();
  const std::string& path = settings.maillog_file;
  if (path.empty()) return fail_with(EX_CONFIG, "maillog_file is not set: the system's own log daemon has the log");
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return fail_with(EX_CANTCREAT, Error::from_errno(errno, path).message());
  if (!S_ISREG(st.st_mode)) return fail_with(EX_CONFIG, "maillog_file = " + path + " is not a file to be rotated");
  const std::string former = rotated_name(path, settings.maillog_file_rotate_suffix, std::time(nullptr));
  if (former.empty()) {
    return fail_with(EX_CONFIG, "maillog_file_rotate_suffix = " + settings.maillog_file_rotate_suffix +
                                    " gives no usable name: use text for strftime(3), such as %Y%m%d-%H%M%S");
  }

  const std::string state = service::state_directory(settings);
  const Fd lock(::open((state + "/logrotate.lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail_with(EX_NOPERM, Error::from_errno(errno, state + "/logrotate.lock").message());
  if (auto locked = lock_file(lock.get(), seconds(0)); !locked)
    return fail_with(EX_TEMPFAIL, "another rotation of this log is under way");
  const auto master = service::running_master(state);
  if (!master) return cannot_tell(master.error());
  if (!*master) {
    const auto now = service::interim(config);
    if (!now) return cannot_tell(now.error());
    if (now->any())
      return fail_with(EX_TEMPFAIL,
                       "programs write to the log, and there is no master that could have them open it "
                       "again: try again when the next one is there (" +
                           describe(*now) + ")");
  }
  const auto before = log_opened(state);
  if (*master && !before) {
    return fail_with(EX_UNAVAILABLE,
                     "the running mail system cannot open its log again (it is starting, or older than this command)");
  }
  const Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!changes || ::inotify_add_watch(changes.get(), state.c_str(), IN_MOVED_TO) < 0)
    return fail_with(EX_OSERR, Error::from_errno(errno, "inotify " + state).message());

  if (const std::string other = taken_name(former); !other.empty())
    return fail_with(EX_TEMPFAIL, other + " exists already: try again later");
  if (::rename(path.c_str(), former.c_str()) != 0)
    return fail_with(EX_CANTCREAT, Error::from_errno(errno, "rename " + path + " to " + former).message());
  if (*master) {
    if (const int status = hand_over(**master, changes, state, *before, former); status != EX_OK) return status;
  }
  const std::string& command = settings.maillog_file_compressor;
  if (!command.empty()) {
    auto status = compress(command, former);
    if (!status) return fail_with(EX_OSERR, status.error().message());
    if (*status != 0)
      return fail_with(*status, fmt::format("\"{} {}\" ended with status {}: the former log stays as it is", command,
                                            former, *status));
  }
  print("rotated: " + former + "\n");
  return EX_OK;
}

}  // namespace pen::tools
