#include "tools/instance_tool.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/mail/queue_id.h"
#include "lib/suite/service/setup.h"
#include "tools/check.h"
#include "tools/health.h"
#include "tools/instance_control.h"
#include "tools/instance_status.h"
#include "tools/log_rotation.h"
#include "tools/output.h"
#include "tools/snapshot.h"
#include "tools/upgrade.h"

namespace pen::tools {
namespace {

using Command = InstanceTool::Command;

constexpr const char* kProgram = "penstock";

/// The commands, as --help shows them.
struct Row {
  const char* name;
  const char* words;  // after the command
  const char* text;
  Command command;
};
constexpr Row kCommands[] = {
    {"init", " DIR [--port N]", "make an instance: DIR/etc, DIR/spool, DIR/data, DIR/log (port 2525)", Command::init},
    {"start", "", "start it in the background; returns when it serves", Command::start},
    {"start-fg", "", "the same in the foreground", Command::start_foreground},
    {"stop", "", "let what is in hand finish, at most stop_drain_time, and stop", Command::stop},
    {"abort", "", "stop at once", Command::abort},
    {"reload", "", "use the changed configuration; open sessions continue", Command::reload},
    {"upgrade", "", "become the version that is installed now; open sessions continue", Command::upgrade},
    {"flush", "", "try all deferred mail now", Command::flush},
    {"logrotate", "", "put the log file aside, begin a new one, compress the former one", Command::log_rotate},
    {"status", " [--json]", "what runs; session classes with their limits and counts", Command::status},
    {"health", "", "exit status 0 if it runs and its services answer: for containers and load balancers",
     Command::health},
    {"explain", " [--json] MESSAGE",
     "why a message is where it is, what happens next and when; MESSAGE is its queue id", Command::explain},
    {"history", " [--json] [-n N] MESSAGE|ADDRESS",
     "what became of a message, or of the mail from and to an address, by the files of events", Command::history},
    {"check", " [--json] [--no-dns]", "what is wrong with the configuration and the directories", Command::check},
    {"import", " [--from DIR] [--to DIR] [-n] [--json] [--force]",
     "take over the configuration of Postfix (/etc/postfix) or of Debian's Exim\n"
     "--queue DIR [-n] [--json] [--remove]: the queue of a Postfix that is stopped",
     Command::import_from},
    {"export", " --queue DIR [--plain] [--json] [--remove]", "the queue as files that another mail system can take",
     Command::export_queue},
    {"snapshot", " DIR", "a copy of configuration, queue and data, running or not, that can be started elsewhere",
     Command::snapshot},
    {"restore", " DIR [--to DIR] [--merge]", "take over such a copy; with --merge into a queue that holds mail",
     Command::restore},
    {"doctor", " [--json] [--no-network] [--probe HOST]",
     "what is wrong with the whole: configuration, DNS, ports, certificates, disk, clock, kernel, servers",
     Command::doctor},
    {"list", " [--json]", "the instances of this host, and which of them run", Command::list},
    {"multi", " OPTIONS", "what postmulti does: penstock multi --help", Command::multi},
    {"tls", " SUBCOMMAND", "switch TLS on, make keys and certificates: penstock tls --help", Command::tls},
    {"drain", "", "as stop", Command::stop},
    {"quick-stop", "", "as stop", Command::stop},
    {"quick-start", "", "as start", Command::start},
    {"set-permissions", "", "no work: each start sets owners and modes of its directories", Command::nothing},
    {"upgrade-configuration", "", "no work: what main.cf and master.cf do not say has its default", Command::nothing},
    {"non-bdb", " status|enable-redirect|enable-reindex|disable",
     "no work: no table is of Berkeley DB, and hash: and btree: are LMDB", Command::non_bdb}};
/// From here on they are for callers of postfix(1).
constexpr const char* kFirstOfPostfix = "drain";

/// What the options of a command say, where that is decided by several words.
struct CommandWords {
  int port;
  int most;  // events
  bool remove = false;
};

std::vector<service::Option> options_of(Command command, InstanceTool::Options& o, CommandWords& words) {
  using service::into;
  using service::set;
  switch (command) {
    case Command::init:
      return {{"--port N", "it listens there, on the loopback interface", into(words.port, 1, 65535)}};
    case Command::status:
      return {{"--json", "as JSON", set(o.json)}};
    case Command::explain:
      return {{"--json", "as JSON", set(o.explain.json)}};
    case Command::history:
      return {{"--json", "the events as they stand, one in a line", set(o.history.json)},
              {"-n N", "the newest N events (1000)", into(words.most, 1, 1'000'000)}};
    case Command::check:
      return {{"--json", "as JSON", set(o.json)}, {"--no-dns", "look no names up", set(o.dns, false)}};
    case Command::list:
      return {{"--json", "as JSON", set(o.multi.json)}};
    case Command::doctor:
      return {{"--json", "as JSON", set(o.doctor.json)},
              {"--no-network", "ask and connect to nobody", set(o.doctor.network, false)},
              {"--probe HOST", "is port 25 of this host reached from here?", into(o.doctor.probe)}};
    case Command::restore:
      return {{"--to DIR", "the directory of main.cf (the directory of -c)", into(o.restore.to)},
              {"--merge", "add the messages to a queue that holds some", set(o.restore.merge)}};
    case Command::export_queue:
      return {{"--queue DIR", "where the files go", into(o.export_queue.directory)},
              {"--plain", "SMTP without parameters", set(o.export_queue.plain)},
              {"--remove", "remove here what was written", set(o.export_queue.remove)},
              {"--json", "a line for each message", set(o.export_queue.json)}};
    case Command::import_from:
      return {{"--from DIR", "of main.cf, or of update-exim4.conf.conf (/etc/postfix)", into(o.import_config.from)},
              {"--to DIR", "where it goes (the directory of -c)", into(o.import_config.to)},
              {"--force", "replace a main.cf that is there, but for its directories and account",
               set(o.import_config.force)},
              {"--queue DIR", "its queue_directory, such as /var/spool/postfix", into(o.import_queue.directory)},
              {"--remove", "remove there what is safe here", set(words.remove)},
              {"-n, --dry-run", "say what would be done, and do nothing", set(o.import_config.dry_run)},
              {"--json", "the report as JSON; of a queue, a line for each message", set(o.import_config.json)}};
    default:
      return {};
  }
}

/// "<a@b.example>" as people copy it from a log.
std::string without_brackets(const std::string& address) {
  const bool has = address.size() > 2 && address.front() == '<' && address.back() == '>';
  return has ? address.substr(1, address.size() - 2) : address;
}

/// The one word that a command needs, if it needs one, is taken from the front. Returns what is wrong; empty: nothing.
std::string take_argument(const Row& row, std::vector<std::string>& rest, InstanceTool::Options& o) {
  const std::string first = rest.empty() ? std::string() : rest.front();
  switch (row.command) {
    case Command::init:
      if (rest.empty()) return "init needs a directory";
      o.instance.directory = first;
      break;
    case Command::explain:
      if (!mail::is_queue_id(first)) return "explain needs the queue id of a message";
      o.explain.queue_id = first;
      break;
    case Command::history:
      if (mail::is_queue_id(first))
        o.history.sought.queue_id = first;
      else if (first.contains('@'))
        o.history.sought.address = without_brackets(first);
      else
        return "history needs the queue id of a message, or an address";
      break;
    case Command::non_bdb: {
      constexpr std::string_view kAll[] = {"status", "enable-redirect", "enable-reindex", "disable"};
      if (std::ranges::find(kAll, first) == std::end(kAll))
        return "non-bdb needs one of status, enable-redirect, enable-reindex and disable";
      o.non_bdb = first;
      break;
    }
    case Command::snapshot:
    case Command::restore:
      if (rest.empty()) return std::string(row.name) + " needs a directory";
      (row.command == Command::snapshot ? o.snapshot : o.restore.from) = first;
      break;
    default:
      return {};
  }
  rest.erase(rest.begin());
  return {};
}

/// What is wrong with the import of a queue or of a configuration; empty: nothing.
std::string settle_import(InstanceTool::Options& o, bool remove) {
  o.import_queue.dry_run = o.import_config.dry_run;
  o.import_queue.json = o.import_config.json;
  o.import_queue.remove = remove;
  if (remove && o.import_queue.directory.empty()) return "--remove is for --queue";
  if (!o.import_queue.directory.empty() && (o.import_config.force || !o.import_config.to.empty()))
    return "--to and --force are for a configuration, not for --queue";
  return {};
}

/// Reads the words after a command into the options.
std::expected<void, service::Ending> read_command(const Row& row, const std::vector<std::string>& words,
                                                  InstanceTool::Options& o) {
  CommandWords said{.port = static_cast<int>(o.instance.port), .most = static_cast<int>(o.history.most)};
  service::CommandLine line{.program = kProgram,
                            .usage = {std::string("penstock [-c DIR] ") + row.name + row.words},
                            .about = row.text,
                            .options = options_of(row.command, o, said)};
  if (row.command == Command::import_from) {
    line.usage = {"penstock [-c DIR] import [--from DIR] [--to DIR] [-n] [--json] [--force]",
                  "penstock [-c DIR] import --queue DIR [-n] [--json] [--remove]"};
    line.about = "Takes over the configuration of another mail system, or the queue of a Postfix.";
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  auto rest = line.read(static_cast<int>(argv.size()), argv.data());
  if (!rest) return std::unexpected(rest.error());
  o.instance.port = static_cast<unsigned>(said.port);
  o.history.most = static_cast<std::size_t>(said.most);
  std::string wrong = take_argument(row, *rest, o);
  if (wrong.empty() && row.command == Command::import_from) wrong = settle_import(o, said.remove);
  if (wrong.empty() && row.command == Command::export_queue && o.export_queue.directory.empty())
    wrong = "export needs --queue DIR";
  if (wrong.empty() && !rest->empty())
    wrong = std::string(row.name) + ": unexpected \"" + printable(rest->front()) + "\"";
  if (wrong.empty()) return {};
  return std::unexpected(line.misuse(wrong));
}

const char* name_of(Command command) { return std::ranges::find(kCommands, command, &Row::command)->name; }

/// With multi_instance_wrapper these commands are for all instances, if no instance was named by -c or MAIL_CONFIG.
bool wraps(const config::Config& config, const InstanceTool::Options& o) {
  if (!o.directory.empty() || std::getenv("MAIL_CONFIG") != nullptr) return false;
  if (config.settings().multi_instance_wrapper.empty() || config.settings().multi_instance_directories.empty())
    return false;
  switch (o.command) {
    case Command::start:
    case Command::stop:
    case Command::reload:
    case Command::upgrade:
    case Command::flush:
    case Command::status:
      return true;
    default:
      return false;
  }
}

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  print(fmt::format(format, std::forward<T>(values)...) + "\n");
}

service::CommandLine command_line(InstanceTool::Options& o, bool& any_program) {
  service::CommandLine line{.program = kProgram,
                            .usage = {"penstock [-c DIR] COMMAND"},
                            .about = "Makes, starts, stops and looks at a Penstock instance.",
                            .options = {},
                            .options_end_at_a_word = true,
                            .help_names = "-h, --help"};
  for (const Row& row : kCommands) {
    if (row.name == std::string_view(kFirstOfPostfix)) line.options.push_back({"", "As postfix(1) has them:"});
    line.options.push_back({std::string(row.name) + row.words, row.text});
  }
  auto& choice = o.multi.choice;
  for (service::Option option :
       {service::Option{"", "Options before the command:"},
        {"-c DIR", "the directory of main.cf and master.cf (MAIL_CONFIG, else /etc/penstock)",
         service::into(o.directory)},
        {"-a", "for all instances, one after the other", service::set(choice.all)},
        {"-g GROUP", "for those of a group", service::into(choice.group)},
        {"-i NAME", "for one: its name, \"-\" the first", service::into(choice.name)},
        {"-x", "with one of these: COMMAND is any program, such as penqueue", service::set(any_program)},
        {"-R", "with one of these: in reverse order", service::set(choice.reverse)},
        {"-v, -D", "change nothing", service::accepted()}})
    line.options.push_back(std::move(option));
  return line;
}

/// penstock multi, which reads its words itself.
std::expected<void, service::Ending> read_multi(const std::vector<std::string>& words, InstanceTool::Options& o) {
  std::vector<const char*> rest;
  for (const std::string& word : words) rest.push_back(word.c_str());
  auto multi = MultiTool::read(static_cast<int>(rest.size()), rest.data());
  if (!multi) return std::unexpected(multi.error());
  o.multi = *std::move(multi);
  if (o.multi.directory.empty()) o.multi.directory = o.directory;
  return {};
}

}  // namespace

std::expected<InstanceTool::Options, service::Ending> InstanceTool::read(int argc, const char* const* argv) {
  Options o;
  bool any_program = false;
  const service::CommandLine line = command_line(o, any_program);
  auto& several = o.multi;
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  o.several = several.choice.all || !several.choice.group.empty() || !several.choice.name.empty();
  if (any_program && !o.several) return std::unexpected(line.misuse("-x needs -a, -g or -i"));
  several.directory = o.directory;
  if (any_program) {
    several.mode = MultiTool::Mode::command;
    several.words = *std::move(words);
    return o;
  }
  const auto* row = std::ranges::find(kCommands, words->front(), &Row::name);
  if (row == std::end(kCommands))
    return std::unexpected(line.misuse("unknown command \"" + printable(words->front()) + "\""));
  o.command = row->command;
  if (o.command == Command::multi) {
    if (auto read = read_multi(*words, o); !read) return std::unexpected(read.error());
    return o;
  }
  if (o.command == Command::tls) {
    if (o.several) return std::unexpected(line.misuse("tls is for one instance"));
    auto tls = TlsTool::read(*words);
    if (!tls) return std::unexpected(tls.error());
    o.tls = *std::move(tls);
    return o;
  }
  if (auto read = read_command(*row, *words, o); !read) return std::unexpected(read.error());
  if (o.command == Command::list) {
    several.mode = MultiTool::Mode::list;
    several.running = true;
  } else if (o.several) {
    if (o.command == Command::init || o.command == Command::restore || o.command == Command::start_foreground)
      return std::unexpected(line.misuse(words->front() + " is for one instance"));
    several.mode = MultiTool::Mode::penstock;
    several.words = *std::move(words);
  }
  return o;
}

int InstanceTool::run() {
  if (options_.multi.mode != MultiTool::Mode::none) return MultiTool(options_.multi).run();
  const std::string directory = config::config_directory(options_.directory);
  if (const auto status = run_without_configuration(directory)) return *status;
  const auto config = config::load(directory);
  if (!config) return fail_with(EX_CONFIG, config.error().message());
  if (wraps(*config, options_)) {
    options_.multi.mode = MultiTool::Mode::penstock;
    options_.multi.words = {name_of(options_.command)};
    if (options_.json) options_.multi.words.emplace_back("--json");
    return MultiTool(options_.multi).run();
  }
  return run_with(*config);
}

std::optional<int> InstanceTool::run_without_configuration(const std::string& directory) {
  switch (options_.command) {
    case Command::init:
      return init();
    case Command::nothing:
      std::fprintf(stderr,
                   "penstock: nothing to do: each start sets owners and modes of its directories, and a setting that "
                   "is not there has its default\n");
      return EX_OK;
    case Command::non_bdb:
      return non_bdb();
    case Command::tls:
      return TlsTool(options_.tls, directory).run();
    case Command::doctor:
      return Doctor(directory, options_.doctor).run();
    case Command::restore:
      if (options_.restore.to.empty()) options_.restore.to = directory;
      return Restore(options_.restore).run();
    case Command::check:
      return check(directory, {.json = options_.json, .dns = options_.dns});
    case Command::import_from:
      if (!options_.import_queue.directory.empty()) return std::nullopt;
      if (options_.import_config.to.empty()) options_.import_config.to = directory;
      return ConfigImport(options_.import_config).run();
    default:
      return std::nullopt;
  }
}

int InstanceTool::run_with(const config::Config& config) {
  InstanceControl control(config);
  switch (options_.command) {
    case Command::init:
    case Command::check:
    case Command::list:
    case Command::multi:
    case Command::doctor:
    case Command::restore:
    case Command::nothing:
    case Command::non_bdb:
    case Command::tls:
      break;
    case Command::explain:
      return explain_message(config, options_.explain);
    case Command::history:
      return show_history(config, options_.history);
    case Command::snapshot:
      return Snapshot(config, options_.snapshot).run();
    case Command::health:
      return health(config);
    case Command::start:
      return control.start();
    case Command::start_foreground:
      return control.start_foreground();
    case Command::stop:
      return control.stop();
    case Command::abort:
      return control.abort();
    case Command::reload:
      return control.reload();
    case Command::upgrade:
      return upgrade(config);
    case Command::flush:
      return control.flush();
    case Command::log_rotate:
      return rotate_log(config);
    case Command::import_from:
      return QueueImport(config, options_.import_queue).run();
    case Command::export_queue:
      return QueueExport(config, options_.export_queue).run();
    case Command::status:
      return print_status(config, options_.json);
  }
  return EX_SOFTWARE;
}

int InstanceTool::non_bdb() const {
  if (options_.non_bdb == "status") {
    say("no table is of Berkeley DB: hash: and btree: tables are LMDB files (NAME.lmdb), and penstock start and reload "
        "make those anew whose text is newer");
    return EX_OK;
  }
  if (options_.non_bdb == "disable")
    return fail_with(
        EX_UNAVAILABLE,
        "non-bdb: tables of Berkeley DB cannot be read: keep their texts, and penmap makes hash: and btree: "
        "tables of them (NAME.db files may be removed)");
  std::fprintf(stderr, "penstock: nothing to do: hash: and btree: tables are always LMDB files\n");
  return EX_OK;
}

int InstanceTool::init() {
  const NewInstance& what = options_.instance;
  if (const auto ok = make_instance(what); !ok) return fail_with(EX_CANTCREAT, ok.error().message());
  say("made an instance in {}: it will listen on port {} of the loopback interface", what.directory, what.port);
  say("edit {0}/etc/main.cf, then: penstock -c {0}/etc start", what.directory);
  if (::geteuid() != 0) {
    say("it will run as this user: your mail goes to Maildirs below {}/mail, that of other users of this host waits in "
        "the queue",
        what.directory);
  }
  if (::geteuid() == 0 && ::getpwnam("penstock") && !::getpwnam(service::kQueueOwner)) {
    say("there is no account \"{}\": the queue will belong to \"penstock\" as well; scripts/accounts makes it",
        service::kQueueOwner);
  }
  if (::geteuid() == 0 && !::getpwnam("penstock")) {
    say("there is no account \"penstock\": it will run as \"daemon\"; for more than a trial, make the account with "
        "scripts/accounts and set mail_owner");
  }
  return EX_OK;
}

}  // namespace pen::tools
