#include "lib/service/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "lib/base/log.h"
#include "lib/confine/apply.h"
#include "lib/map/database_table.h"
#include "lib/metrics/page.h"
#include "lib/service/approved_tables.h"
#include "lib/service/link.h"
#include "lib/service/table_opener.h"

namespace pen::service {

using async::Stream;
using async::Task;

Context::Context(async::Loop& loop, config::Config config, Arguments arguments, Account owner,
                 std::vector<Fd> listeners, std::vector<Fd> pages)
    : loop_(loop),
      config_(std::move(config)),
      arguments_(std::move(arguments)),
      owner_(owner),
      listeners_(std::move(listeners)),
      pages_(std::move(pages)),
      sessions_(loop) {}

std::string Context::queue_path(std::string_view name) const {
  return settings().queue_directory + "/" + std::string(name);
}

namespace {

// Connections of other programs and tools to one socket. master.cf's limit counts sessions and
// deliveries, not these; it only has to stop a runaway client.
constexpr std::size_t kMaxPrograms = 4096;

/// A connection's place among those that may be open, for as long as its session runs: no program can lose it by
/// accident.
Task<void> keep_place(async::Listener::Slot /*place*/, Task<void> session) { co_await std::move(session); }

Task<void> accept_all(Context* context, std::shared_ptr<async::Listener> listener, Context::Session session) {
  const async::Until until{.cancel = &context->draining()};
  while (!context->is_draining()) {
    auto accepted = co_await listener->accept(until);
    if (accepted) {
      std::string name = "session " + accepted->peer.text();
      auto place = std::move(accepted->slot);
      context->sessions().spawn(std::move(name), keep_place(std::move(place), session(*std::move(accepted))));
    } else if (accepted.error().is(async::WaitError::cancelled) || accepted.error().is(async::WaitError::closed)) {
      break;
    } else {
      log::warning("accept: {}", accepted.error().message());
    }
  }
  listener->close();
}

}  // namespace

void Context::serve(Session session, std::size_t bound) {
  if (bound == 0) bound = arguments_.type == "inet" ? limit() : kMaxPrograms;
  for (Fd& fd : listeners_) {
    auto listener = std::make_shared<async::Listener>(loop_, std::move(fd), bound);
    accepting_.push_back(listener);
    loop_.spawn("accept", accept_all(this, std::move(listener), session));
  }
  listeners_.clear();
}

void Context::pause_accepting(bool paused, const std::function<bool(const async::SocketAddress&)>& which) {
  for (const auto& listener : accepting_) {
    const auto at = async::local_address(listener->fd());
    if (at && which(*at)) listener->pause(paused);
  }
}

std::size_t Context::live_sessions() const { return sessions_.size(); }

void Context::ready() {
  if (std::exchange(ready_sent_, true)) return;
  if (::send(kStatusFd, kReady.data(), kReady.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    log::warning("cannot tell master that the service is ready: {}", Error::from_errno(errno).message());
  }
}

/// What happens around the program's own work.
struct Skeleton {
  Context& context;
  Hooks& hooks;
  async::Loop::TimerHandle limit;
  bool leaving = false;
  bool stopping = false;

  [[noreturn]] static void leave(int status) {
    log::flush();
    std::fflush(nullptr);
    std::_Exit(status);
  }

  static Task<void> finish(Skeleton* self) {
    if (self->hooks.drain) {
      co_await self->hooks.drain();
    } else {
      (void)co_await self->context.sessions().drained();
    }
    leave(EX_OK);
  }

  void drain(bool bounded) {
    async::Loop& loop = context.loop();
    if (bounded && !limit) {
      limit = loop.call_at(loop.now() + context.settings().stop_drain_time, [] { leave(EX_OK); });
    }
    if (bounded && !std::exchange(stopping, true) && hooks.stop) hooks.stop();
    if (std::exchange(leaving, true)) return;
    context.draining_.raise();
    loop.spawn("drain", finish(this));
  }

  void write_status() {
    async::Loop& loop = context.loop();
    log::info("status: {} tasks, {} sessions{}", loop.spawned(), context.live_sessions(), leaving ? ", draining" : "");
    if (hooks.status) {
      for (const std::string& line : hooks.status()) log::info("status: {}", line);
    }
    constexpr std::size_t kShown = 100;
    const auto tasks = loop.list_tasks();
    for (std::size_t i = 0; i < tasks.size() && i < kShown; ++i) log::info("status: task {}", tasks[i]);
    if (tasks.size() > kShown) log::info("status: and {} tasks more", tasks.size() - kShown);
  }

  /// Packets keep their borders, and a word is shorter than any read.
  static Task<void> listen_to_master(Skeleton* self, Stream master) {
    for (;;) {
      auto word = co_await master.read_some(kMaxWord);
      if (!word) leave(EX_OK);  // master is gone
      if (word->contains(kDrain)) self->drain(false);
      if (word->contains(kWakeup) && self->hooks.wakeup) self->hooks.wakeup();
      for (Fd& file : master.take_fds()) {
        log::adopt(std::move(file));
        master.write(kLogged);
      }
    }
  }
};

namespace {

void print_help(const Options& options) {
  std::printf(
      "%s: %s\n\n"
      "This program is started by master, which hands it its sockets and its part of master.cf;\n"
      "see penstock(1) and master(8). Options: -n service -t type -s sockets -m limit -c dir\n"
      "-u (run as mail_owner) -v (debug) -o name=value --help --version\n",
      options.name.c_str(), options.summary.c_str());
}

bool started_by_master() {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(kStatusFd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

int refuse(const Options& options, int status, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", options.name.c_str(), why.c_str());
  return status;
}

/// Why the program cannot start, for the log and for who started it.
void tell_failure(const Error& error) {
  const std::string text = error.message();
  log::error("{}", text);
  const std::string word = (std::string(kFailed) + text).substr(0, kMaxWord);
  // Nobody may be listening any more; the log has it.
  (void)::send(kStatusFd, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int exit_status(const Error& error) {
  using enum config::ConfigError;
  for (const auto e : {unreadable, bad_syntax, bad_value, too_large}) {
    if (error.is(e)) return EX_CONFIG;
  }
  return EX_TEMPFAIL;
}

/// What master left open, fit for a loop and closed to programs that this one starts. Error: which is not there.
Result<std::vector<Fd>> take_sockets(int count) {
  ::fcntl(kStatusFd, F_SETFD, FD_CLOEXEC);
  ::fcntl(kProgramsLockFd, F_SETFD, FD_CLOEXEC);  // commands of users must not hold it
  ::fcntl(kStatusFd, F_SETFL, ::fcntl(kStatusFd, F_GETFL) | O_NONBLOCK);
  std::vector<Fd> listeners;
  for (int i = 0; i < count; ++i) {
    const int fd = kFirstListener + i;
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return fail_errno(fmt::format("socket {} was not inherited", fd));
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    listeners.emplace_back(fd);
  }
  return listeners;
}

/// The page to count in. None: somebody else than master started the program.
Fd take_page() {
  if (::fcntl(kMetricsFd, F_SETFD, FD_CLOEXEC) != 0) return Fd();
  return Fd(kMetricsFd);
}

/// Opens the log, goes to the queue directory, drops rights: as the settings and master.cf have it.
Result<Account> settle_in(const config::Config& config, const Options& options, const Arguments& arguments,
                          confine::Confinement& confinement) {
  const config::Settings& settings = config.settings();
  PEN_TRY(open_log(settings, options.name, arguments.debug));
  if (options.with_privileges) options.with_privileges(config);
  raise_descriptor_limit();
  PEN_TRY_ASSIGN(const Account owner, mail_owner(settings));
  if (::chdir(settings.queue_directory.c_str()) != 0) return fail_errno("queue_directory " + settings.queue_directory);
  const bool drops = !options.keep_privileges && arguments.unprivileged;
  if (drops) PEN_TRY(lend_private_tables(config, options.name));
  confinement.shed_bounding_set();
  if (drops) PEN_TRY(drop_privileges(settings.mail_owner));
  // A second net below the end of the status socket; cleared by setuid, so it is set after it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // No thread has been started, and every table is still to be opened: so it is opened as it is when it changes.
  confinement.close();
  return owner;
}

/// The last step: the program has what it needs, and serves from here on.
void confine_calls(confine::Confinement& confinement) {
  confinement.filter_calls(kStatusFd);
  for (const std::string& problem : confinement.take_problems()) log::warning("confinement is not whole: {}", problem);
  const std::string word = std::string(kConfined) + confinement.in_force().text();
  (void)::send(kStatusFd, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);  // as in ready(), which follows
}

}  // namespace

int run(int argc, char** argv, Options options, Start start) {
  auto arguments = Arguments::parse({argv + 1, argv + argc});
  if (!arguments) return refuse(options, EX_USAGE, arguments.error());
  if (arguments->help) {
    print_help(options);
    return EX_OK;
  }
  if (arguments->version) {
    std::printf("%s %s\n", options.name.c_str(), PEN_VERSION);
    return EX_OK;
  }
  if (arguments->service.empty() || !started_by_master()) {
    return refuse(options, EX_USAGE, "this program is started by master: use \"penstock start\"; see --help");
  }
  ::umask(077);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  const Fd page = take_page();
  auto listeners = take_sockets(arguments->sockets + arguments->pages);
  if (!listeners) return refuse(options, EX_OSERR, listeners.error().message());

  auto config = config::load(config::config_directory(arguments->config_directory), arguments->settings());
  if (!config) {
    tell_failure(config.error());  // to standard error: there is no log yet
    return EX_CONFIG;
  }
  confine::Surroundings surroundings = confine::real_surroundings();
  surroundings.screens = arguments->screens;
  confine::Confinement confinement(confine::make_plan(confine::row_of(options.name), *config, surroundings));
  const auto owner = settle_in(*config, options, *arguments, confinement);
  if (!owner) {
    tell_failure(owner.error());
    return EX_CONFIG;
  }

  if (page) {
    if (auto ok = metrics::adopt_page(page); !ok) log::warning("{}", ok.error().message());
  }
  std::vector<Fd> pages;
  std::move(listeners->begin() + arguments->sockets, listeners->end(), std::back_inserter(pages));
  listeners->resize(static_cast<std::size_t>(arguments->sockets));

  async::Loop loop;
  Context context(loop, *std::move(config), *std::move(arguments), *owner, *std::move(listeners), std::move(pages));
  // Tables of the old form, mysql:name, have their parameters in main.cf.
  map::database::ask_main_cf([&context](const std::string& name) { return context.config().text(name); });
  map::approve_proxied([&context](const std::string& table) { return approves(context.config(), table); });
  Hooks hooks;
  Skeleton skeleton{context, hooks, {}};
  (void)loop.on_signal(SIGTERM, [&](int) { skeleton.drain(true); });
  (void)loop.on_signal(SIGINT, [&](int) { skeleton.drain(true); });
  (void)loop.on_signal(SIGUSR1, [&](int) { skeleton.write_status(); });
  loop.spawn("master", Skeleton::listen_to_master(&skeleton, Stream(loop, Fd(kStatusFd))));

  auto started = start(context);
  if (!started) {
    tell_failure(started.error());
    Skeleton::leave(exit_status(started.error()));
  }
  hooks = *std::move(started);
  confine_calls(confinement);
  if (!options.announces_ready) context.ready();
  log::gather();
  loop.run();
  Skeleton::leave(EX_OK);
}

}  // namespace pen::service
