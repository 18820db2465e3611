#include "tools/upgrade.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "lib/base/file_lock.h"
#include "lib/base/text.h"
#include "lib/service/lock.h"
#include "tools/instance_control.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

struct Progress {
  unsigned number = 0;
  bool under_way = false, good = false, became = false;  // became: master is the new version
  std::vector<std::string> lines;
};

/// What master's status file says; nullopt: nothing yet, or this master knows no upgrade.
std::optional<Progress> progress(const std::string& state) {
  const std::ifstream file(state + "/master.status");
  std::ostringstream text;
  text << file.rdbuf();
  const auto read = nlohmann::json::parse(text.str(), nullptr, false);
  if (!read.is_object() || !read.contains("upgrade") || !read["upgrade"].is_object()) return {};
  const auto& u = read["upgrade"];
  Progress p;
  p.number = u.value("number", 0U);
  p.under_way = u.value("under_way", false);
  p.good = u.value("good", false);
  p.became = u.value("became", false);
  for (const auto& line : u.value("lines", nlohmann::json::array())) {
    if (line.is_string()) p.lines.push_back(line.get<std::string>());
  }
  return p;
}

/// Prints each line as it comes, until the upgrade has ended. nullopt: master is gone, or says nothing for too long.
std::optional<Progress> follow(const service::Process& master, const Fd& changes, const std::string& state,
                               unsigned number, seconds patience) {
  std::size_t shown = 0;
  for (auto last = std::chrono::steady_clock::now();;) {
    const auto now = progress(state);
    if (now && now->number >= number) {
      if (now->lines.size() > shown) last = std::chrono::steady_clock::now();
      for (; shown < now->lines.size(); ++shown) print(printable(now->lines[shown]) + "\n");
      if (!now->under_way) return now;
    }
    if (master.gone_within({}) || std::chrono::steady_clock::now() - last > patience) return {};
    pollfd wait{changes.get(), POLLIN, 0};
    // The kernel tells of each new status file; that master has died nobody writes into it.
    if (::poll(&wait, 1, 500) < 0 && errno != EINTR) return {};
    char events[4096];
    (void)!::read(changes.get(), events, sizeof events);
  }
}

}  // namespace

int upgrade(const config::Config& config) {
  const config::Settings& settings = config.settings();
  const std::string state = service::state_directory(settings);
  const auto master = own_master(config);
  if (!master) return cannot_tell(master.error());
  if (!*master) return fail_with(EX_UNAVAILABLE, "the mail system is not running");
  const Fd lock(::open((state + "/upgrade.lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail_with(EX_NOPERM, Error::from_errno(errno, state + "/upgrade.lock").message());
  if (auto locked = lock_file(lock.get(), seconds(0)); !locked)
    return fail_with(EX_TEMPFAIL, "another upgrade is under way");
  const auto before = progress(state);
  // One that does not know the signal would die of it.
  if (!before)
    return fail_with(EX_UNAVAILABLE,
                     "the running master cannot become another version (it is starting, or too old): use \"penstock "
                     "stop\" and \"penstock start\"");
  if (before->under_way) return fail_with(EX_TEMPFAIL, "another upgrade is under way");
  const Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!changes || ::inotify_add_watch(changes.get(), state.c_str(), IN_MOVED_TO) < 0)
    return fail_with(EX_OSERR, Error::from_errno(errno, "inotify " + state).message());
  if (auto sent = (*master)->signal(SIGUSR1); !sent) return fail_with(EX_NOPERM, sent.error().message());
  // An exclusive program may use the time to end, to be ready, and once more for the one before it.
  const seconds patience =
      std::chrono::ceil<seconds>(3 * settings.upgrade_program_timeout + settings.stop_drain_time) + seconds(10);
  const auto after = follow(**master, changes, state, before->number + 1, patience);
  if (!after && (*master)->gone_within({})) return fail_with(EX_SOFTWARE, "master died: see the log");
  if (!after) return fail_with(EX_TEMPFAIL, "the upgrade takes longer: see \"penstock status\" and the log");
  if (after->good) return EX_OK;
  return fail_with(after->became ? EX_TEMPFAIL : EX_CONFIG,
                   after->lines.empty() ? "not upgraded" : after->lines.back());
}

}  // namespace pen::tools
