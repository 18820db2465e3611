#include "lib/suite/service/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "lib/base/async/readiness.h"
#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/metrics/page.h"
#include "lib/base/version.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/events/emitter.h"
#include "lib/suite/ipc/badges.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/look.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/roots_file.h"
#include "lib/suite/service/table_opener.h"
#include "lib/suite/service/table_request.h"

namespace pen::service {

using async::Stream;
using async::Task;

Context::Context(async::Loop& loop, config::Config config, Arguments arguments, Owners owners,
                 std::vector<Fd> listeners, std::vector<Fd> pages)
    : loop_(loop),
      config_(std::move(config)),
      arguments_(std::move(arguments)),
      owners_(owners),
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
// Connections that may wait in a socket's backlog.
constexpr std::size_t kMostWaiting = 1024;

/// A connection's place among those that may be open, for as long as its session runs: no program can lose it by
/// accident.
Task<void> keep_place(async::Listener::Slot /*place*/, Task<void> session) { co_await std::move(session); }

Task<void> accept_all(Context* context, std::shared_ptr<async::Listener> listener, const Context::Session& session) {
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
  // Clients that have connected by now are served here: if master has given the address up, no other process would.
  if (context->arguments().type == "inet") {
    const async::Until none{.deadline = context->loop().now()};
    for (std::size_t i = 0; i < kMostWaiting; ++i) {
      auto accepted = co_await listener->accept(none);
      if (!accepted) break;
      std::string name = "session " + accepted->peer.text();
      auto place = std::move(accepted->slot);
      context->sessions().spawn(std::move(name), keep_place(std::move(place), session(*std::move(accepted))));
    }
  }
  listener->close();
}

}  // namespace

void Context::serve(Session session, std::size_t bound) {
  if (bound == 0) bound = arguments_.type == "inet" ? limit() : kMaxPrograms;
  const Session& kept = kept_.emplace_back(std::move(session));
  for (Fd& fd : listeners_) {
    auto listener = std::make_shared<async::Listener>(loop_, std::move(fd), bound, arguments_.processes > 1);
    accepting_.push_back(listener);
    loop_.spawn("accept", accept_all(this, std::move(listener), kept));
  }
  listeners_.clear();
}

void Context::serve_at(const std::string& path, Session session) {
  const auto at = std::ranges::find_if(listeners_, [&](const Fd& fd) {
    const auto address = async::local_address(fd.get());
    return address && is_at(*address, path);
  });
  if (at == listeners_.end()) return;
  auto listener = std::make_shared<async::Listener>(loop_, std::move(*at), kMaxPrograms);
  listeners_.erase(at);
  accepting_.push_back(listener);
  loop_.spawn("accept", accept_all(this, std::move(listener), kept_.emplace_back(std::move(session))));
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

namespace {

void tell_life(events::Type type) {
  if (events::wanted()) events::tell(events::Event(type, events::now()));
}

/// Only where a setting wants events.
void open_events(Context& context, const std::string& program) {
  const auto& s = context.settings();
  const bool wanted = !s.event_log_file.empty() || !s.event_accounting_file.empty() || !s.event_webhooks.empty();
  if (!wanted || s.event_service_name.empty() || program == "penevents") return;
  events::open(context.loop(), {.path = context.queue_path(ipc::service_socket(s.event_service_name)),
                                .program = program,
                                .service = context.service(),
                                .report = log::as_warning});
}

}  // namespace

/// What happens around the program's own work.
struct Skeleton {
  Context& context;
  Hooks& hooks;
  async::Loop::TimerHandle limit;
  async::Event needs_helper;
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
    tell_life(events::Type::stopped);
    co_await events::settle();
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

  static Task<void> miss_helper(Skeleton* self, int helper) {
    async::Readiness end(self->context.loop(), helper);
    // It sends nothing of its own accord: what can be read is the end.
    if (!co_await end.readable()) co_return;
    // A program that has never asked for a table may never do so. Its helper may have ended before it started.
    (void)co_await self->needs_helper.wait();
    if (self->leaving) co_return;
    log::error("the helper that becomes users and opens tables for this process has ended: the process ends as well");
    self->drain(true);
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
      // The death of master is no longer a reason to die: the next one comes to this socket.
      if (word->contains(kKept)) ::prctl(PR_SET_PDEATHSIG, 0);
      if (word->contains(kWakeup) && self->hooks.wakeup) self->hooks.wakeup();
      for (Fd& file : master.take_fds()) {
        log::adopt(std::move(file));
        master.write(kLogged);
        if (self->hooks.log_rotated) self->hooks.log_rotated();
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
      "-u (run as mail_owner) -v (debug) -D (run debugger_command) -o name=value --look --help --version\n",
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

/// Why the program cannot start, for the log and for the process that started it.
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

/// Without badges from master the program knows its name alone, and so what it may not ask for.
Result<void> put_on(Fd memory, const std::string& program) {
  ipc::Badges badges;
  if (memory) {
    PEN_TRY_ASSIGN(badges, ipc::from_memory(memory.get()));
  }
  badges.program = program;
  ipc::wear(std::move(badges));
  return {};
}

/// The page to count in. None: somebody else than master started the program.
Fd take_page() {
  if (::fcntl(kMetricsFd, F_SETFD, FD_CLOEXEC) != 0) return Fd();
  return Fd(kMetricsFd);
}

/// Announces to the helper what the program will ask for.
Result<void> meet_helper(const config::Config& config, const Options& options, const Arguments& arguments,
                         const Owners& accounts, int helper) {
  if (options.start_helper) {
    if (helper < 0) return fail_errno("master has no helper for it", ECHILD);
    PEN_TRY(options.start_helper(config, arguments, accounts, helper));
  } else if (helper >= 0 && ::send(helper, kTablesOnly.data(), kTablesOnly.size(), MSG_NOSIGNAL) < 0) {
    // Its tables may be readable without.
    log::warning("the helper that opens tables for this process: {}", Error::from_errno(errno).message());
  }
  if (helper >= 0) borrow_tables(config, options.name, helper);
  return {};
}

/// What -D in master.cf asks for: the shell runs debugger_command with the rights that master gave, and the program
/// waits for it. What the command leaves behind has neither sockets nor locks of the program.
void run_debugger(const std::string& command) {
  if (command.empty()) return log::warning("option -D in master.cf, but debugger_command is empty");
  log::info("running: {}", command);
  const int status = std::system(command.c_str());
  if (status == -1)
    log::warning("debugger_command: {}", std::strerror(errno));
  else if (status != 0)
    log::warning("debugger_command ended with {} {}", WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/// How the files that settings name are read for the names in them. Still as root; where others choose what is found,
/// with the rights that the program is going to have.
confine::Machine machine_for(const config::Settings& settings, std::string_view program) {
  confine::Machine out = confine::real_machine();
  const auto accounts = ::geteuid() == 0 ? owners(settings) : fail_errno("owners", EPERM);
  if (!accounts) return out;
  const bool queue = confine::row_of(program).account == confine::Account::queue;
  out.read = [account = queue ? accounts->queue : accounts->mail,
              as_itself = out.read](const std::string& path) -> std::optional<std::string> {
    const auto file = open_roots_file(path);
    if (!file) return std::nullopt;
    if (*file) return confine::beginning_of(**file);
    const AsAccount other(account);
    return other.ok() ? as_itself(path) : std::nullopt;
  };
  return out;
}

/// Opens the log, goes to the queue directory, drops rights: as the settings and master.cf have it.
Result<Owners> settle_in(const config::Config& config, const Options& options, const Arguments& arguments,
                         confine::Confinement& confinement, int helper) {
  const config::Settings& settings = config.settings();
  PEN_TRY(open_log(settings, options.name, arguments.debug));
  if (arguments.debugger) run_debugger(settings.debugger_command);
  if (options.with_privileges) options.with_privileges(config);
  PEN_TRY_ASSIGN(const Owners accounts, owners(settings));
  PEN_TRY(meet_helper(config, options, arguments, accounts, helper));
  raise_descriptor_limit();
  if (::chdir(settings.queue_directory.c_str()) != 0) return fail_errno("queue_directory " + settings.queue_directory);
  const bool drops = options.start_helper || arguments.unprivileged;
  confinement.shed_bounding_set();
  if (drops) PEN_TRY(drop_privileges(settings, accounts, confine::row_of(options.name).account));
  // A second net below the end of the status socket; cleared by setuid, so it is set after it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // No thread has been started, and every table is still to be opened: so it is opened as it is when it changes.
  confinement.close();
  return accounts;
}

/// The last step: the program has what it needs, and serves from here on.
void confine_calls(confine::Confinement& confinement) {
  confinement.filter_calls(kStatusFd);
  for (const std::string& problem : confinement.take_problems()) log::warning("confinement is not whole: {}", problem);
  const std::string word = std::string(kConfined) + confinement.in_force().text();
  (void)::send(kStatusFd, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);  // as in ready(), which follows
}

/// What master has left open for this process.
struct Handed {
  Fd page, badges, helper;  // of metrics; those that this process lacks are not there
  std::vector<Fd> listeners, pages;
};

Result<Handed> take_handed(const Arguments& arguments) {
  Handed out;
  out.page = take_page();
  PEN_TRY_ASSIGN(out.listeners, take_sockets(arguments.sockets + arguments.pages + (arguments.helped ? 1 : 0) +
                                             (arguments.badged ? 1 : 0)));
  if (arguments.badged) {
    out.badges = std::move(out.listeners.back());
    out.listeners.pop_back();
  }
  if (arguments.helped) {
    out.helper = std::move(out.listeners.back());
    out.listeners.pop_back();
    ::fcntl(out.helper.get(), F_SETFL, ::fcntl(out.helper.get(), F_GETFL) & ~O_NONBLOCK);
  }
  std::move(out.listeners.begin() + arguments.sockets, out.listeners.end(), std::back_inserter(out.pages));
  out.listeners.resize(static_cast<std::size_t>(arguments.sockets));
  return out;
}

/// With what this process says of itself.
Result<config::Config> read_configuration(const Arguments& arguments, const std::string& name) {
  auto overrides = arguments.settings();
  overrides.push_back({"process_name", name});
  overrides.push_back({"process_id", std::to_string(::getpid())});
  PEN_TRY_ASSIGN(auto config, config::load(config::config_directory(arguments.config_directory), overrides));
  PEN_TRY(apply_settings(config.settings()));
  return config;
}

/// From the start of the program proper to its end.
[[noreturn]] void serve(async::Loop& loop, Context& context, const Options& options, const Start& start,
                        confine::Confinement& confinement, const Fd& helper) {
  let_tables_ask(context);
  Hooks hooks;
  Skeleton skeleton{context, hooks, {}, async::Event(loop)};
  if (options.start_helper) skeleton.needs_helper.set();
  on_first_borrowed([&] { loop.post_from_thread([&] { skeleton.needs_helper.set(); }); });
  (void)loop.on_signal(SIGTERM, [&](int) { skeleton.drain(true); });
  (void)loop.on_signal(SIGINT, [&](int) { skeleton.drain(true); });
  (void)loop.on_signal(SIGUSR1, [&](int) { skeleton.write_status(); });
  loop.spawn("master", Skeleton::listen_to_master(&skeleton, Stream(loop, Fd(kStatusFd))));
  if (helper) loop.spawn("helper", Skeleton::miss_helper(&skeleton, helper.get()));

  open_events(context, options.name);
  auto started = start(context);
  if (!started) {
    tell_failure(started.error());
    Skeleton::leave(exit_status(started.error()));
  }
  hooks = *std::move(started);
  confine_calls(confinement);
  if (!options.announces_ready) context.ready();
  log::gather();
  tell_life(events::Type::started);
  loop.run();
  Skeleton::leave(EX_OK);
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
    std::printf("%s %s\n", options.name.c_str(), std::string(version()).c_str());
    return EX_OK;
  }
  if (arguments->look) return look(options, *arguments);
  if (arguments->service.empty() || !started_by_master()) {
    return refuse(options, EX_USAGE, "this program is started by master: use \"penstock start\"; see --help");
  }
  ::umask(077);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  auto handed = take_handed(*arguments);
  if (!handed) return refuse(options, EX_OSERR, handed.error().message());
  const auto failed = [](const Error& why, int status) {
    tell_failure(why);  // while there is no log, to standard error
    return status;
  };
  auto config = read_configuration(*arguments, options.name);
  if (!config) return failed(config.error(), EX_CONFIG);
  open_own_tables_alone(options.name);
  confine::Surroundings surroundings = confine::real_surroundings();
  surroundings.screens = arguments->screens;
  surroundings.machine = machine_for(config->settings(), options.name);
  confine::Confinement confinement(confine::make_plan(confine::row_of(options.name), *config, surroundings));
  const auto settled = settle_in(*config, options, *arguments, confinement, handed->helper.get());
  if (!settled) return failed(settled.error(), EX_CONFIG);
  // Not before: what settle_in() leaves behind with other rights is to know none of them.
  if (auto ok = put_on(std::move(handed->badges), options.name); !ok) return failed(ok.error(), EX_TEMPFAIL);
  if (handed->page) {
    if (auto ok = metrics::adopt_page(handed->page); !ok) log::warning("{}", ok.error().message());
  }
  async::Loop loop;
  Context context(loop, *std::move(config), *std::move(arguments), *settled, std::move(handed->listeners),
                  std::move(handed->pages));
  serve(loop, context, options, start, confinement, handed->helper);
}

}  // namespace pen::service
