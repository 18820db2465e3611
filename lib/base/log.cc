#include "lib/base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <mutex>

#include "lib/base/check.h"
#include "lib/base/log_as.h"
#include "lib/base/text.h"

namespace pen::log {
namespace {

struct State {
  std::mutex lock;
  Options options;
  std::string ident;  // openlog() keeps the pointer
  int fd = STDERR_FILENO;
  std::time_t stamp_second = 0;
  char stamp[32] = "";
  std::string process;   // its number; a system call each time, so children alone ask anew
  std::string gathered;  // lines not yet written
  State() { know_process(); }
  void know_process() { process = std::to_string(::getpid()); }
};

thread_local bool gathering = false;
constexpr std::size_t kGathered = 32 * 1024;  // lines are written in pieces of about this size at the most

State& state() {
  static State* instance = new State;  // never destroyed: threads may log until the very end
  [[maybe_unused]] static const int kept = ::pthread_atfork(nullptr, nullptr, [] { instance->know_process(); });
  return *instance;
}

const char* word(Level level) {
  switch (level) {
    case Level::warning:
      return "warning: ";
    case Level::error:
      return "error: ";
    case Level::fatal:
      return "fatal: ";
    case Level::panic:
      return "panic: ";
    default:
      return "";
  }
}

int syslog_level(Level level) {
  switch (level) {
    case Level::debug:
      return LOG_DEBUG;
    case Level::info:
      return LOG_INFO;
    case Level::warning:
      return LOG_WARNING;
    case Level::error:
      return LOG_ERR;
    default:
      return LOG_CRIT;
  }
}

/// Whether only root and ourselves can create names in the directory. A symbolic link there (/dev/stdout) is then
/// intended.
bool trusted(const std::string& directory) {
  struct stat st{};
  return ::stat(directory.c_str(), &st) == 0 && (st.st_uid == 0 || st.st_uid == ::geteuid()) &&
         (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The log names everybody's addresses and logins, so only its owner may read it unless the mode says more. Outside a
/// trusted directory the file must be neither a symbolic link nor a second name of another file. Returns -1 with
/// errno.
int open_file(const std::string& path, unsigned mode) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const bool free = !trusted(directory);
  // A pipe that nobody reads is waited for by nobody.
  const int fd = ::open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (free ? O_NOFOLLOW : 0), 0600);
  struct stat st{};
  if (fd < 0) return fd;
  const bool known = ::fstat(fd, &st) == 0;
  if (free && !(known && S_ISREG(st.st_mode) && st.st_nlink == 1)) {
    ::close(fd);
    errno = EMLINK;
    return -1;
  }
  // /dev/stdout, a pipe of a container: lines wait for its reader.
  if (known && !S_ISREG(st.st_mode)) (void)::fcntl(fd, F_SETFL, O_APPEND);
  // A new file gets its mode whatever the umask; one with lines in it may have been changed by hand. Where the mode
  // cannot be set the file stays its owner's alone.
  if (known && S_ISREG(st.st_mode) && st.st_size == 0 && st.st_uid == ::geteuid()) (void)::fchmod(fd, mode);
  return fd;
}

/// The caller holds the lock.
void write_gathered(State& s) {
  // If the log cannot be written, there is nowhere left to report it; the next lines try again.
  [[maybe_unused]] const ssize_t n = ::write(s.fd, s.gathered.data(), s.gathered.size());
  s.gathered.clear();
}

void log_check(const char* line) { write(Level::panic, line); }

}  // namespace

Result<void> open(Options options) {
  State& s = state();
  int fd = STDERR_FILENO;
  if (options.target == Target::file) {
    fd = open_file(options.path, options.mode);
    if (fd < 0) return fail_errno("open log file " + options.path);
  }
  if (options.hostname.empty()) {
    char name[256] = "localhost";
    ::gethostname(name, sizeof name - 1);
    options.hostname = std::string(name).substr(0, std::string_view(name).find('.'));
  }
  const std::lock_guard guard(s.lock);
  if (!s.gathered.empty()) write_gathered(s);
  if (s.fd != STDERR_FILENO) ::close(s.fd);
  s.fd = fd;
  s.options = std::move(options);
  s.ident = s.options.tag + (s.options.program.empty() ? "" : "/" + s.options.program);
  if (s.options.target == Target::syslog) ::openlog(s.ident.c_str(), LOG_PID | LOG_NDELAY, s.options.syslog_facility);
  set_check_handler(log_check);
  return {};
}

Result<void> reopen() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  if (s.options.target != Target::file) return {};
  const int fd = open_file(s.options.path, s.options.mode);
  if (fd < 0) return fail_errno("open log file " + s.options.path);
  if (!s.gathered.empty()) write_gathered(s);
  ::close(s.fd);
  s.fd = fd;
  return {};
}

int descriptor() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  return s.options.target == Target::file ? s.fd : -1;
}

void adopt(Fd file) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  if (s.options.target != Target::file || !file) return;
  if (!s.gathered.empty()) write_gathered(s);
  if (s.fd != STDERR_FILENO) ::close(s.fd);
  s.fd = file.release();
}

void gather() { gathering = true; }

void flush() {
  if (!gathering) return;
  State& s = state();
  const std::lock_guard guard(s.lock);
  if (!s.gathered.empty()) write_gathered(s);
}

bool debug_enabled() { return state().options.debug; }

void write(Level level, std::string_view text) { write_as({}, level, text); }

void write_as(std::string_view program, Level level, std::string_view text) {
  State& s = state();
  const std::string body = readable(text, kMaxLine);
  const std::lock_guard guard(s.lock);
  const std::string other = program.empty() ? std::string() : fmt::format("{}/{}", s.options.tag, program);
  const std::string& ident = program.empty() ? s.ident : other;
  if (s.options.target == Target::syslog) {
    // openlog() keeps the pointer: it must not be left with a string that dies here.
    if (!program.empty()) ::openlog(ident.c_str(), LOG_PID | LOG_NDELAY, s.options.syslog_facility);
    ::syslog(syslog_level(level), "%s%s", word(level), body.c_str());
    if (!program.empty()) ::openlog(s.ident.c_str(), LOG_PID | LOG_NDELAY, s.options.syslog_facility);
    return;
  }
  const std::time_t now = std::time(nullptr);
  if (now != s.stamp_second) {
    std::tm tm{};
    ::localtime_r(&now, &tm);
    std::strftime(s.stamp, sizeof s.stamp, "%b %e %H:%M:%S", &tm);
    s.stamp_second = now;
  }
  const auto add = [&s](std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) s.gathered += part;
  };
  if (!s.ident.empty()) add({s.stamp, " ", s.options.hostname, " ", ident, "[", s.process, "]: "});
  add({word(level), body, "\n"});
  const bool waits = gathering && level <= Level::info && s.options.target == Target::file;
  if (!waits || s.gathered.size() >= kGathered) write_gathered(s);
}

void exit_fatal(std::string_view text) {
  write(Level::fatal, text);
  ::_exit(1);
}

}  // namespace pen::log
