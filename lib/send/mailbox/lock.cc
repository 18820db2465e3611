#include "lib/send/mailbox/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "lib/base/fd.h"
#include "lib/base/text.h"

namespace pen::mailbox {
namespace {

/// Pauses between two tries at a lock.
Result<void> pause(seconds time, const CalledOff& called_off) {
  timespec t{.tv_sec = time.count(), .tv_nsec = 0};
  while (::nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
  if (called_off()) return fail(called_off_error());
  return {};
}

Result<void> write_pid(int fd) {
  const std::string pid = std::to_string(::getpid());
  const ssize_t n = ::write(fd, pid.data(), pid.size());
  if (n != static_cast<ssize_t>(pid.size())) return fail_errno("write", n < 0 ? errno : EIO);
  return {};
}

}  // namespace

Error called_off_error() { return Error::from_errno(ECANCELED, "delivery called off"); }

Result<LockRules> parse_lock_rules(std::string_view methods, std::string_view setting) {
  LockRules rules;
  rules.fcntl = rules.flock = rules.dotlock = false;
  for (const auto word : split(methods)) {
    if (word == "fcntl")
      rules.fcntl = true;
    else if (word == "flock")
      rules.flock = true;
    else if (word == "dotlock")
      rules.dotlock = true;
    else
      return fail_errno(fmt::format("{}: no such method: {}", setting, printable(word, 40)), EINVAL);
  }
  if (!rules.fcntl && !rules.flock && !rules.dotlock)
    return fail_errno(fmt::format("{}: no method given", setting), EINVAL);
  return rules;
}

Result<LockRules> lock_rules(const config::Settings& settings, std::string_view methods) {
  PEN_TRY_ASSIGN(LockRules rules,
                 parse_lock_rules(methods.empty() ? join(settings.mailbox_delivery_lock) : std::string(methods)));
  rules.attempts = static_cast<unsigned>(settings.deliver_lock_attempts);
  rules.delay = std::chrono::ceil<seconds>(settings.deliver_lock_delay);
  rules.stale = std::chrono::ceil<seconds>(settings.stale_lock_time);
  return rules;
}

void Dotlock::release() {
  if (directory_ >= 0) (void)::unlinkat(directory_, name_.c_str(), 0);
  directory_ = -1;
}

Result<void> Dotlock::take(int directory, const std::string& mailbox, const LockRules& rules,
                           const CalledOff& called_off) {
  name_ = mailbox + ".lock";
  for (unsigned attempt = 0;; ++attempt) {
    Fd fd(::openat(directory, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd) {
      directory_ = directory;
      return write_pid(fd.get());
    }
    if (errno != EEXIST) return fail_errno("create " + name_);
    struct stat st{};
    if (::fstatat(directory, name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        ::time(nullptr) - st.st_mtime > rules.stale.count()) {
      (void)::unlinkat(directory, name_.c_str(), 0);
    } else if (attempt + 1 >= rules.attempts) {
      return fail_errno("unable to lock for exclusive access: " + name_, EAGAIN);
    } else {
      PEN_TRY(pause(rules.delay, called_off));
    }
  }
}

Result<void> lock_file_for_mail(int fd, const LockRules& rules, const CalledOff& called_off) {
  for (unsigned attempt = 0;; ++attempt) {
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    const bool fcntl_ok = !rules.fcntl || ::fcntl(fd, F_OFD_SETLK, &range) == 0;
    const bool ok = fcntl_ok && (!rules.flock || ::flock(fd, LOCK_EX | LOCK_NB) == 0);
    if (ok) return {};
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return fail_errno("lock");
    if (attempt + 1 >= rules.attempts) return fail_errno("unable to lock for exclusive access", EAGAIN);
    PEN_TRY(pause(rules.delay, called_off));
  }
}

}  // namespace pen::mailbox
