#pragma once
/// The skeleton of every program's main: command line, configuration, log, privileges, sockets from
/// master, readiness, signals, drain.
///
/// Use:     int main(int argc, char** argv) {
///            return pen::service::run(argc, argv, {.name = "smtpd", .summary = "SMTP server"},
///                                     [](Context& c) -> Result<Hooks> {
///              auto server = std::make_shared<Server>(c);              // dies with the process
///              c.serve([server](auto accepted) { return session(server, std::move(accepted)); });
///              return Hooks{.status = [server] { return server->status(); }};
///            });
///          }
/// Order:   configuration, log, the rights that the service is to have and no more files than it needs
///          (docs/security.md), start(), no more system calls than it needs, "ready" to master, loop. A start() that
///          returns an error is logged and ends the process (EX_CONFIG for a configuration error, else EX_TEMPFAIL);
///          master tries again, paced.
/// Signals: SIGUSR1 writes the state to the log; SIGTERM drains, at most stop_drain_time, and exits
///          with 0; SIGHUP and SIGPIPE do nothing. On master's word the program drains without a
///          limit (reload). When master dies the process ends at once.
/// Drain:   at a reload for as long as it takes, at a stop for stop_drain_time (hooks.stop says that it
///          is one). context.draining() is raised: serve() stops accepting. Then hooks.drain, when given,
///          else all sessions ending, ends the process.
/// End:     the process ends without destroying anything: nothing may depend on a destructor.
/// Thread:  everything in the loop's.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/listener.h"
#include "lib/base/async/sync.h"
#include "lib/config/config.h"
#include "lib/suite/service/arguments.h"
#include "lib/suite/service/setup.h"

namespace pen::service {

struct Options {
  std::string name;              // "smtpd"
  std::string summary;           // one line for --help
  bool announces_ready = false;  // calls Context::ready() itself, later than start()
  /// Reads of the settings what start() reads of them, and opens what it opens, by the same functions, and begins
  /// nothing: for penstock check and the test of readers (look.h). Errors: those that start() would return.
  std::function<Result<void>(class Context&)> look = {};
  /// Called when the log is open and the rights are still those that master gave: for files that root alone can read.
  std::function<void(const config::Config&)> with_privileges = {};
  /// Called while the rights are those that master gave, before any thread: says over the socket to the process that
  /// keeps them what the program will ask for (docs/root-helper.md). The program itself drops them, whatever master.cf
  /// says. When that process ends the program, which can do no more, drains as at a stop.
  std::function<Result<void>(const config::Config&, const Arguments&, const Owners&, int helper)> start_helper = {};
};

struct Hooks {
  /// Finishes what is in hand; the process exits when it ends.
  std::function<async::Task<void>()> drain = {};
  /// The suite stops (no reload): stop_drain_time is left, also for what drains already.
  std::function<void()> stop = {};
  /// Lines for the log on SIGUSR1: what the program has in hand, counters.
  std::function<std::vector<std::string>()> status = {};
  /// "penstock logrotate" has begun a new log file.
  std::function<void()> log_rotated = {};
  /// master.cf's wake-up time has come.
  std::function<void()> wakeup = {};
};

class Context {
 public:
  Context(async::Loop& loop, config::Config config, Arguments arguments, Owners owners, std::vector<Fd> listeners,
          std::vector<Fd> pages = {});

  async::Loop& loop() { return loop_; }
  const config::Config& config() const { return config_; }
  const config::Settings& settings() const { return config_.settings(); }
  /// Service name and type in master.cf, limit, the words of master.cf that are the program's own.
  const Arguments& arguments() const { return arguments_; }
  const std::string& service() const { return arguments_.service; }
  /// Sessions or deliveries at once; SIZE_MAX when master.cf sets no limit.
  std::size_t limit() const { return arguments_.limit == 0 ? SIZE_MAX : arguments_.limit; }
  /// The account that data and most of the other programs belong to.
  const Account& owner() const { return owners_.mail; }
  /// That one, and the account that the queue belongs to.
  const Owners& owners() const { return owners_; }
  /// A path below queue_directory.
  std::string queue_path(std::string_view name) const;

  /// Raised when the program should take on nothing new.
  async::Cancel& draining() { return draining_; }
  bool is_draining() const { return draining_.raised(); }
  /// Sessions; the process waits for them when it drains.
  async::Gate& sessions() { return sessions_; }

  using Session = std::function<async::Task<void>(async::Listener::Accepted)>;
  /// Accepts on every inherited socket, at most bound sessions at once (0: limit() for inet services,
  /// some thousands for the connections of other programs), each a task of sessions().
  /// session must not be a capturing lambda coroutine: let it call a coroutine function. What session holds lives as
  /// long as the Context: a session goes on with it after the last connection was accepted.
  void serve(Session session, std::size_t bound = 0);
  /// The same on the inherited Unix socket at this path alone, which serve(), to be called later, leaves out. Does
  /// nothing where there is none.
  void serve_at(const std::string& path, Session session);
  /// The inherited sockets, for a program that accepts itself.
  const std::vector<Fd>& listeners() const { return listeners_; }
  std::vector<Fd> take_listeners() { return std::move(listeners_); }
  /// The pages of counters of all services, to be read (lib/base/metrics): for penapi, others have none.
  std::vector<Fd> take_pages() { return std::move(pages_); }
  std::size_t live_sessions() const;
  /// Stops and resumes accepting on the sockets of serve() that `which` says yes to, by the address they are bound to.
  void pause_accepting(bool paused, const std::function<bool(const async::SocketAddress&)>& which);

  /// Reports to master that the program serves; the skeleton does it unless announces_ready.
  void ready();

 private:
  friend struct Skeleton;
  async::Loop& loop_;
  config::Config config_;
  Arguments arguments_;
  Owners owners_;
  std::vector<Fd> listeners_, pages_;
  std::vector<std::shared_ptr<async::Listener>> accepting_;
  std::deque<Session> kept_;
  async::Cancel draining_;
  async::Gate sessions_;
  bool ready_sent_ = false;
};

using Start = std::function<Result<Hooks>(Context&)>;

/// Does not return before the program ends; the value is its exit status.
int run(int argc, char** argv, Options options, Start start);

}  // namespace pen::service
