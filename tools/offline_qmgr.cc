#include "tools/offline_qmgr.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lib/suite/service/helper_link.h"
#include "lib/suite/service/launch.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/running.h"
#include "lib/suite/service/setup.h"
#include "lib/suite/service/table_opener.h"

namespace pen::tools {
namespace {

// See qmgr/main.cc.
constexpr const char* kOrdersOnly = "orders-only";

/// The arguments of the queue manager in master.cf, with the settings there.
service::Arguments arguments_of(const config::Config& config) {
  const service::Machine nowhere = {.has_program = [](const auto&) { return true; },
                                    .port = [](const auto&) { return std::nullopt; },
                                    .addresses = [](const auto&) { return std::vector<std::string>{}; }};
  service::Plan plan = service::make_plan(config, nowhere);
  const auto found = std::ranges::find(plan.services, std::string_view("qmgr"), &service::Planned::program);
  service::Arguments arguments;
  if (found != plan.services.end()) {
    arguments = std::move(found->arguments);
  } else {
    arguments.service = "qmgr";
    arguments.unprivileged = true;
  }
  arguments.config_directory = config.directory();
  arguments.sockets = 1;
  arguments.rest = {kOrdersOnly};
  return arguments;
}

}  // namespace

std::optional<OfflineQmgr::Refusal> OfflineQmgr::refusal(const config::Config& config) {
  const auto& s = config.settings();
  // Not every user may know this; the queue's own lock protects it in any case.
  if (const auto master = service::running_master(service::state_directory(s)); master && *master)
    return Refusal{EX_UNAVAILABLE, fmt::format("the mail system runs (master pid {}), but its queue manager cannot "
                                               "be reached: it is being started or stopped, or the log says why",
                                               (*master)->pid())};
  else if (master)
    if (const auto now = service::interim(config); now && now->any())
      return Refusal{EX_TEMPFAIL,
                     fmt::format("the mail system is between two masters ({}), and its queue manager cannot "
                                 "be reached: try again when the next one is there",
                                 describe(*now))};
  struct stat st{};
  const bool there = ::stat(s.queue_log_directory.c_str(), &st) == 0;
  const int why = errno;
  if (::geteuid() != 0 && (!there || st.st_uid != ::geteuid()))
    return Refusal{EX_UNAVAILABLE,
                   "the mail system is not running: until it is started (penstock start) only root "
                   "and the mail owner can look at its queue"};
  if (there) return std::nullopt;
  if (why == ENOENT) return Refusal{EX_UNAVAILABLE, "the mail system is not running, and has no queue yet"};
  return Refusal{EX_OSERR, Error::from_errno(why, s.queue_log_directory).message()};
}

bool OfflineQmgr::owns_queue(const config::Config& config) {
  struct stat st{};
  return ::stat(config.settings().queue_log_directory.c_str(), &st) == 0 && st.st_uid == ::geteuid();
}

Result<OfflineQmgr> OfflineQmgr::start(const config::Config& config) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]);
  const Fd theirs(pair[1]);
  service::raise_descriptor_limit();
  service::Launch what;
  what.path = config.settings().daemon_directory + "/qmgr";
  service::Arguments arguments = arguments_of(config);
  // For tables that it may not open itself.
  service::HelperLink link;
  Fd helper;
  if (service::names_tables(config, "qmgr")) {
    PEN_TRY(link.run({.path = config.settings().daemon_directory + "/become",
                      .config_directory = config.directory(),
                      .environment = service::program_environment(config.settings())}));
    PEN_TRY_ASSIGN(helper, link.introduce("qmgr", arguments));
    arguments.helped = true;
  }
  what.words = arguments.to_words();
  what.environment = service::program_environment(config.settings());
  what.sockets = {theirs.get()};
  if (helper) what.sockets.push_back(helper.get());
  what.output = STDERR_FILENO;  // the log must not mix with the tool's output (maillog_file = /dev/stdout)
  std::fflush(nullptr);
  PEN_TRY_ASSIGN(auto started, service::launch(what));
  return OfflineQmgr(std::move(what.path), started.pid, std::move(started.status), std::move(ours));
}

OfflineQmgr::End OfflineQmgr::wait() {
  End end;
  // Each packet is a word; the socket ends with the process.
  for (;;) {
    char word[service::kMaxWord];
    const ssize_t n = ::recv(status_.get(), word, sizeof word, 0);
    if (n == 0) break;
    if (n > 0) {
      const std::string_view text(word, static_cast<std::size_t>(n));
      if (text.starts_with(service::kFailed)) end.word = std::string(text.substr(service::kFailed.size()));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) break;
    pollfd ready{status_.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
  while (::waitpid(pid_, &end.status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

std::string OfflineQmgr::failure() {
  const End end = wait();
  if (!end.word.empty()) return end.word;
  if (WIFSIGNALED(end.status))
    return fmt::format("{} was ended by signal {}: see the log", path_, WTERMSIG(end.status));
  if (WEXITSTATUS(end.status) == EX_UNAVAILABLE) return "cannot run " + path_;
  return fmt::format("{} ended with status {}: see the log", path_, WEXITSTATUS(end.status));
}

void OfflineQmgr::finish() {
  // It may have ended already; what it answered for is on stable storage.
  (void)::send(status_.get(), service::kDrain.data(), service::kDrain.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)wait();
}

}  // namespace pen::tools
