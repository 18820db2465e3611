#include "tools/instance_master.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sysexits.h>

#include <cerrno>
#include <chrono>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/suite/service/running.h"
#include "lib/suite/service/standby.h"
#include "tools/instance_control.h"

namespace pen::tools {
namespace {

// As a rule the next master serves within a tenth of a second; its first pause is a second long (keeper/course.h).
constexpr milliseconds kNextMaster{3000};
// A master that waits for its lease writes no status file.
constexpr milliseconds kAskAgain{200};

using Found = Result<std::optional<service::Process>>;

bool being_started(const Found& found) { return !found && found.error().is_errno(EAGAIN); }

/// A master comes within the time, as far as is known.
bool is_due(const config::Config& config, const Found& found, milliseconds left) {
  if (found) {
    const auto now = service::interim(config);
    return now && now->any() && (!now->keeper || now->keeper->due.value_or(milliseconds(0)) < left);
  }
  return being_started(found);
}

}  // namespace

Found own_master(const config::Config& config) {
  if (config.settings().standby_lease == config::StandbyLease::none)
    return service::running_master(service::state_directory(config.settings()));
  PEN_TRY_ASSIGN(auto standby, service::running_standby(config.directory()));
  if (!standby) return std::nullopt;
  return std::move(standby->process);
}

Found next_master(const config::Config& config) {
  if (auto found = own_master(config); found ? found->has_value() : !being_started(found)) return found;
  const auto end = std::chrono::steady_clock::now() + kNextMaster;
  // Its first status file: by then it has its lock.
  const Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::string state = service::state_directory(config.settings());
  if (changes) (void)::inotify_add_watch(changes.get(), state.c_str(), IN_MOVED_TO);
  for (;;) {
    auto found = own_master(config);
    if (found ? found->has_value() : !being_started(found)) return found;
    const auto left = std::chrono::floor<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !is_due(config, found, left)) return found;
    pollfd look{changes.get(), POLLIN, 0};
    (void)::poll(&look, 1, static_cast<int>(std::min(left, kAskAgain).count()));
    char events[4096];
    (void)!::read(changes.get(), events, sizeof events);
  }
}

int cannot_tell(const Error& why) {
  if (why.is_errno(EAGAIN)) return fail_with(EX_TEMPFAIL, why.message());
  if (why.is_errno(EACCES) || why.is_errno(EPERM) || why.is(service::LockError::not_ours))
    return fail_with(EX_NOPERM, "whether the mail system is running is known to whoever starts it, as a rule root: " +
                                    why.message());
  return fail_with(EX_OSERR, "whether the mail system is running cannot be found out: " + why.message());
}

WithoutMaster without_master(const config::Config& config) {
  const auto now = service::interim(config);
  if (!now)
    return {EX_OSERR,
            "master is not running, and whether a keeper is there to start the next one cannot be found out: " +
                now.error().message(),
            {}};
  if (!now->any()) return {EX_UNAVAILABLE, "the mail system is not running", {}};
  WithoutMaster without{EX_TEMPFAIL, "between two masters: " + describe(*now), {}};
  if (now->keeper) without.keeper = now->keeper->process.pid();
  return without;
}

int say_no_master(const config::Config& config) {
  const WithoutMaster without = without_master(config);
  return fail_with(without.status, without.text);
}

}  // namespace pen::tools
