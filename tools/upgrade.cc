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
#include "lib/suite/service/lock.h"
#include "lib/suite/service/standby.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/instance_status.h"
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

// Nothing tells of an answer that has changed.
constexpr milliseconds kLookAgain{100};

/// What a master that waits for the lease says of itself.
struct Waiting {
  bool active = false;
  std::string life, version, refusal;  // another life: it has begun anew
  unsigned refusals = 0;
};
std::optional<Waiting> read_waiting(const service::Answering& standby) {
  const auto read = nlohmann::json::parse(standby.text, nullptr, false);
  if (!read.is_object()) return {};
  return Waiting{.active = read.value("state", "") == "active",
                 .life = read.value("life", ""),
                 .version = read.value("version", ""),
                 .refusal = read.value("refusal", ""),
                 .refusals = read.value("refusals", 0U)};
}

/// A master that waits becomes the new file at the signal; it runs no programs.
int upgrade_standby(const config::Config& config) {
  const auto found = service::running_standby(config.directory());
  if (!found) return cannot_tell(found.error());
  const auto& standby = *found;
  const auto before = standby ? read_waiting(*standby) : std::nullopt;
  if (!before) return fail_with(EX_TEMPFAIL, "the standby does not answer");
  if (before->life.empty())
    return fail_with(EX_UNAVAILABLE,
                     "the standby that waits is too old to become another version: use \"penstock stop\" and "
                     "\"penstock start\"");
  if (auto sent = standby->process.signal(SIGUSR1); !sent) return fail_with(EX_NOPERM, sent.error().message());
  const auto end = std::chrono::steady_clock::now() + config.settings().upgrade_program_timeout + seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (standby->process.gone_within(kLookAgain)) return fail_with(EX_SOFTWARE, "master died: see the log");
    const auto answer = service::running_standby(config.directory());  // none while it begins anew
    const auto now = answer && *answer ? read_waiting(**answer) : std::nullopt;
    if (!now) continue;
    if (now->life != before->life) {
      print("done: the standby is version " + printable(now->version) + "\n");
      return EX_OK;
    }
    if (now->refusals != before->refusals)
      return fail_with(EX_CONFIG, printable(now->refusal) + "; the standby waits as it did");
    if (now->active) return fail_with(EX_TEMPFAIL, "the standby has taken over meanwhile: ask again");
  }
  return fail_with(EX_TEMPFAIL, "the upgrade takes longer: see \"penstock status\" and the log");
}

}  // namespace

int upgrade(const config::Config& config) {
  const config::Settings& settings = config.settings();
  if (waits_as_standby(config)) return upgrade_standby(config);
  const std::string state = service::state_directory(settings);
  const auto master = next_master(config);
  if (!master) return cannot_tell(master.error());
  if (!*master) return say_no_master(config);
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
