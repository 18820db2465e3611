#include "tools/reload.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "tools/instance_control.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

struct State {
  unsigned number = 0;
  bool under_way = false;
  std::string refused;
  std::vector<std::string> former;  // services with former settings
};

/// nullopt: nothing yet, or the master is of a version that says nothing of this.
std::optional<State> state_of(const std::string& directory) {
  const std::ifstream file(directory + "/master.status");
  std::ostringstream text;
  text << file.rdbuf();
  const auto read = nlohmann::json::parse(text.str(), nullptr, false);
  if (!read.is_object() || !read.contains("reload") || !read["reload"].is_object()) return {};
  State s{.number = read["reload"].value("number", 0U),
          .under_way = read["reload"].value("under_way", false),
          .refused = read["reload"].value("refused", ""),
          .former = {}};
  for (const auto& service : read.value("services", nlohmann::json::array()))
    if (service.is_object() && service.value("former_settings", false))
      s.former.push_back(service.value("service", ""));
  return s;
}

}  // namespace

int reload_and_wait(const config::Config& config, const service::Process& master) {
  const std::string directory = service::state_directory(config.settings());
  const auto before = state_of(directory);
  const Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const bool watched = changes && ::inotify_add_watch(changes.get(), directory.c_str(), IN_MOVED_TO) >= 0;
  if (auto sent = master.signal(SIGHUP); !sent && !sent.error().is_errno(ESRCH))
    return fail_with(EX_NOPERM, sent.error().message());
  print("reloading\n");
  if (!before || !watched) return EX_OK;
  const auto end = std::chrono::steady_clock::now() + config.settings().upgrade_program_timeout + seconds(5);
  for (;;) {
    const auto now = state_of(directory);
    if (now && now->number > before->number && !now->refused.empty())
      return fail_with(EX_CONFIG, printable(now->refused) + "; the mail system goes on with what it has");
    if (now && now->number > before->number && !now->under_way) {
      for (const std::string& service : now->former)
        fail_with(EX_TEMPFAIL,
                  fmt::format("service {}: the new program does not serve, so that the one with former settings goes "
                              "on: see the log",
                              printable(service)));
      return now->former.empty() ? EX_OK : EX_TEMPFAIL;
    }
    if (master.gone_within({})) return fail_with(EX_SOFTWARE, "master died: see the log");
    if (std::chrono::steady_clock::now() >= end)
      return fail_with(EX_TEMPFAIL, "the reload takes longer: see \"penstock status\" and the log");
    pollfd wait{changes.get(), POLLIN, 0};
    // The kernel tells of each new status file; that master has died nobody writes into it.
    if (::poll(&wait, 1, 500) < 0 && errno != EINTR) return fail_with(EX_OSERR, "poll");
    char events[4096];
    (void)!::read(changes.get(), events, sizeof events);
  }
}

}  // namespace pen::tools
