// penstock: makes, starts, stops and looks at an instance. See penstock(1).
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/ipc/queue.h"
#include "lib/service/lock.h"
#include "lib/service/plan.h"
#include "lib/service/setup.h"
#include "tools/check.h"
#include "tools/instance.h"
#include "tools/queue_client.h"
#include "tools/session_status.h"
#include "tools/tables.h"

namespace {

using namespace pen;

constexpr std::string_view kUsage =
    "usage: penstock [-c DIR] COMMAND\n"
    "\n"
    "  init DIR [--port N]  make an instance: DIR/etc, DIR/spool, DIR/data, DIR/log (port 2525)\n"
    "  start                start it in the background; returns when it serves\n"
    "  start-fg             the same in the foreground\n"
    "  stop                 let what is in hand finish, at most stop_drain_time, and stop\n"
    "  abort                stop at once\n"
    "  reload               use the changed configuration; open sessions go on\n"
    "  flush                try all deferred mail now\n"
    "  status [--json]      what runs; session classes with their limits and counts\n"
    "  check                what is wrong with the configuration and the directories\n"
    "\n"
    "-c DIR is the directory of main.cf and master.cf (MAIL_CONFIG, else /etc/penstock).\n"
    "--help, --version\n";

struct Command {
  std::string directory, name;
  std::vector<std::string> words;
};

int complain(int status, const std::string& text) {
  std::fprintf(stderr, "penstock: %s\n", text.c_str());
  return status;
}

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  std::puts(fmt::format(format, std::forward<T>(values)...).c_str());
}

int init(const Command& command) {
  tools::NewInstance what;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    if (word == "--port" && i + 1 < command.words.size()) {
      const std::string& text = command.words[++i];
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), what.port);
      if (error != std::errc() || end != text.data() + text.size() || what.port == 0 ||
          what.port > 65535) {
        return complain(EX_USAGE, "--port " + text + ": not a port");
      }
    } else if (word.starts_with('-') || !what.directory.empty()) {
      return complain(EX_USAGE, "init: unexpected \"" + word + "\"");
    } else {
      what.directory = word;
    }
  }
  if (what.directory.empty()) return complain(EX_USAGE, "init needs a directory");
  if (auto ok = tools::make_instance(what); !ok)
    return complain(EX_CANTCREAT, ok.error().message());
  say("made an instance in {}: it will listen on port {} of the loopback interface", what.directory,
      what.port);
  say("edit {0}/etc/main.cf, then: penstock -c {0}/etc start", what.directory);
  if (::geteuid() != 0) {
    say("it will run as this user: your mail goes to Maildirs below {}/mail, that of other users "
        "of "
        "this host waits in the queue",
        what.directory);
  }
  if (::geteuid() == 0 && !::getpwnam("penstock")) {
    say("there is no account \"penstock\": it will run as \"daemon\"; for more than a trial, make "
        "the "
        "account with scripts/accounts and set mail_owner");
  }
  return EX_OK;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const auto& w : words) out.push_back(const_cast<char*>(w.c_str()));
  out.push_back(nullptr);
  return out;
}

/// The directory of the programs; says so when it is not daemon_directory's.
std::string programs(const config::Config& config) {
  auto [path, warning] = service::program_directory(config);
  if (!warning.empty()) complain(EX_OK, "warning: " + warning);
  return path;
}

/// What the files ask for and is done another way.
void say_warnings(const config::Config& config) {
  for (const auto& p : config.problems()) {
    if (p.severity == config::Severity::warning) complain(EX_OK, "warning: " + p.message());
  }
}

/// Services that are read and not run, but for those whose work is done elsewhere.
void say_not_run(const config::Config& config) {
  const auto machine = service::real_machine(service::program_directory(config).path);
  const auto plan = service::make_plan(config, machine);
  for (const auto& skipped : plan.skipped) {
    if (skipped.work_is_done) continue;
    complain(EX_OK, "warning: service " + skipped.label + " is not started: " + skipped.why);
  }
}

/// Runs master; the text it reports is empty when it died without a word.
int start(const config::Config& config) {
  // What cannot be known here master will say: it takes the lock.
  const auto running = service::running_master(service::state_directory(config.settings()));
  if (running && *running && !(*running)->gone_within(service::kDyingMaster)) {
    return complain(
        EX_UNAVAILABLE,
        fmt::format("the mail system is already running (master pid {})", (*running)->pid()));
  }
  // As with any value that cannot be read. The programs that need it would not start, and keep all mail waiting.
  bool wrong = false;
  for (const auto& p : tools::class_problems(config)) {
    if (p.severity != config::Severity::error) continue;
    complain(EX_CONFIG, p.message());
    wrong = true;
  }
  if (wrong) return EX_CONFIG;
  say_warnings(config);
  say_not_run(config);
  // A broken table keeps some mail waiting; not starting would keep all of it.
  for (const std::string& fault : tools::faults(config)) complain(EX_OK, "warning: " + fault);
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0)
    return complain(EX_OSERR, "pipe: " + Error::from_errno(errno).message());
  ::fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC);
  const std::string path = programs(config) + "/master";
  const std::vector<std::string> words = {"master", "-c", config.directory(), "-w",
                                          std::to_string(pipe_fds[1])};
  const auto argv = pointers(words);
  const pid_t pid = ::fork();
  if (pid < 0) return complain(EX_OSERR, "fork: " + Error::from_errno(errno).message());
  if (pid == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    if (null > 2) ::close(null);
    if (::chdir("/") != 0) ::_exit(EX_OSERR);
    ::execv(path.c_str(), argv.data());
    ::_exit(EX_UNAVAILABLE);
  }
  ::close(pipe_fds[1]);
  std::string text;
  char part[512];
  for (ssize_t n = 0; (n = ::read(pipe_fds[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  if (text == "ok") {
    say("started: master pid {}", pid);
    return EX_OK;
  }
  int status = 0;
  if (text.starts_with("started")) return complain(EX_TEMPFAIL, text);
  if (::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    return complain(WEXITSTATUS(status), text.empty() ? "cannot run " + path : text);
  }
  return complain(EX_SOFTWARE, "master died while it was starting: see the log");
}

int start_foreground(const config::Config& config) {
  const std::string path = programs(config) + "/master";
  const std::vector<std::string> words = {"master", "-c", config.directory(), "-f"};
  ::execv(path.c_str(), pointers(words).data());
  return complain(EX_UNAVAILABLE, path + ": " + Error::from_errno(errno).message());
}

int cannot_tell(const Error& why) {
  const bool busy = why.is_errno(EAGAIN);
  return complain(
      busy ? EX_TEMPFAIL : EX_NOPERM,
      busy ? why.message()
           : "whether the mail system is running is known to whoever starts it, as a rule "
             "root: " +
                 why.message());
}

/// Sends the signal to master; with a time, waits until it has ended.
int signal_master(const config::Config& config, int signo, const char* done,
                  milliseconds patience) {
  const auto master = service::running_master(service::state_directory(config.settings()));
  if (!master) return cannot_tell(master.error());
  if (!*master) return complain(EX_UNAVAILABLE, "the mail system is not running");
  if (auto sent = (*master)->signal(signo); !sent && !sent.error().is_errno(ESRCH))
    return complain(EX_NOPERM, sent.error().message());
  if (patience.count() != 0 && !(*master)->gone_within(patience)) {
    return complain(EX_TEMPFAIL, fmt::format("master pid {} has not ended yet", (*master)->pid()));
  }
  say("{}", done);
  return EX_OK;
}

int reload(const config::Config& config) {
  const auto master = service::running_master(service::state_directory(config.settings()));
  if (!master) return cannot_tell(master.error());
  if (!*master) return complain(EX_UNAVAILABLE, "the mail system is not running");
  const auto faults = tools::faults(config);
  for (const std::string& fault : faults) complain(EX_CONFIG, fault);
  say_warnings(config);
  if (!faults.empty())
    return complain(EX_CONFIG, "not reloaded: the mail system goes on with what it has");
  return signal_master(config, SIGHUP, "reloading", {});
}

int stop(const config::Config& config) {
  const auto patience = config.settings().stop_drain_time + seconds(10);
  return signal_master(config, SIGTERM, "stopped", patience);
}

using SessionClasses = std::expected<ipc::sessions::Status, std::string>;

nlohmann::ordered_json to_json(const SessionClasses& classes) {
  if (!classes) return {{"error", classes.error()}};
  auto list = nlohmann::ordered_json::array();
  for (const auto& c : classes->classes)
    list.push_back({{"class", c.mask},
                    {"total_limit", c.total},
                    {"refuse_limit", c.refuse},
                    {"incoming", c.incoming},
                    {"outgoing", c.outgoing},
                    {"refused", c.refused},
                    {"outgoing_waits", c.outgoing_waits}});
  return list;
}

void print(const SessionClasses& classes) {
  if (!classes) return say("session classes: {}", classes.error());
  say("{:<24} {:>9} {:>9} {:>12} {:>13} {:>9}", "session class", "incoming", "outgoing",
      "total limit", "refuse limit", "refused");
  for (const auto& c : classes->classes)
    say("{:<24} {:>9} {:>9} {:>12} {:>13} {:>9}{}", c.mask, c.incoming, c.outgoing, c.total,
        c.refuse, c.refused, c.outgoing_waits ? "  outgoing mail waits" : "");
}

/// Fit for a terminal: names and words of master.cf.
std::string text_of(const nlohmann::ordered_json& object, const char* name) {
  return printable(object.value(name, ""));
}

int status(const config::Config& config, bool json) {
  const std::string state = service::state_directory(config.settings());
  const auto master = service::running_master(state);
  if (!master) return cannot_tell(master.error());
  std::optional<pid_t> pid;
  if (*master) pid = (*master)->pid();
  nlohmann::ordered_json out;
  out["running"] = pid.has_value();
  if (pid) {
    const std::ifstream file(state + "/master.status");
    std::ostringstream text;
    text << file.rdbuf();
    const auto read = nlohmann::ordered_json::parse(text.str(), nullptr, false);
    if (read.is_object()) out.update(read);
    out["master"] = *pid;
  }
  std::optional<SessionClasses> classes;
  if (pid && !config.settings().session_classes.empty()) {
    classes = tools::session_status(config);
    out["session_classes"] = to_json(*classes);
  }
  if (json) {
    say("{}", out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    return pid ? EX_OK : EX_UNAVAILABLE;
  }
  if (!pid) return complain(EX_UNAVAILABLE, "the mail system is not running");
  say("the mail system is running: master pid {}", *pid);
  say("{:<24} {:<20} {:>8} {:>9}  {}", "service", "state", "pid", "restarts", "program");
  for (const auto& s : out.value("services", nlohmann::ordered_json::array())) {
    const int service_pid = s.value("pid", 0);
    say("{:<24} {:<20} {:>8} {:>9}  {}{}", text_of(s, "service"), text_of(s, "state"),
        service_pid ? std::to_string(service_pid) : "-", s.value("restarts", 0),
        text_of(s, "program"),
        s.contains("draining") && !s["draining"].empty() ? " (an old process is draining)" : "");
  }
  for (const auto& s : out.value("not_started", nlohmann::ordered_json::array())) {
    say("{:<24} not started: {}", text_of(s, "service"), text_of(s, "why"));
  }
  if (classes) print(*classes);
  return EX_OK;
}

int flush(const config::Config& config) {
  const auto done = tools::QueueClient("penstock", config)
                        .ask(ipc::queue::Act{.request = 1,
                                             .verb = ipc::queue::Verb::flush,
                                             .all = true,
                                             .site = {},
                                             .queue_ids = {},
                                             .filter = {}},
                             [](auto&, auto&) {});
  if (done.outcome != ipc::queue::Outcome::ok) return complain(EX_TEMPFAIL, "flush: " + done.text);
  say("flushed: {} messages", done.count);
  return EX_OK;
}

std::optional<Command> parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (command.name.empty() && word == "-c") {
      if (++i == argc) return std::nullopt;
      command.directory = argv[i];
    } else if (command.name.empty() && word.starts_with("-")) {
      return std::nullopt;
    } else if (command.name.empty()) {
      command.name = word;
    } else {
      command.words.push_back(word);
    }
  }
  if (command.name.empty()) return std::nullopt;
  return command;
}

int run(const Command& command) {
  if (command.name == "init") return init(command);
  const bool json = command.name == "status" && command.words == std::vector<std::string>{"--json"};
  if (!command.words.empty() && !json) {
    return complain(EX_USAGE, command.name + ": unexpected \"" + command.words.front() + "\"");
  }
  const std::string directory = config::config_directory(command.directory);
  if (command.name == "check") return tools::check(directory);
  auto config = config::load(directory);
  if (!config) return complain(EX_CONFIG, config.error().message());
  if (command.name == "start") return start(*config);
  if (command.name == "start-fg") return start_foreground(*config);
  if (command.name == "stop") return stop(*config);
  if (command.name == "abort") return signal_master(*config, SIGQUIT, "stopped", seconds(10));
  if (command.name == "reload") return reload(*config);
  if (command.name == "flush") return flush(*config);
  if (command.name == "status") return status(*config, json);
  std::fputs(kUsage.data(), stderr);
  return complain(EX_USAGE, "unknown command \"" + command.name + "\"");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage.data(), stdout);
    return EX_OK;
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    say("penstock {}", PEN_VERSION);
    return EX_OK;
  }
  const auto command = parse(argc, argv);
  if (!command) {
    std::fputs(kUsage.data(), stderr);
    return EX_USAGE;
  }
  return run(*command);
}
