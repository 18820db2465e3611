#include "tools/instance_tool.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "tools/check.h"
#include "tools/instance_control.h"
#include "tools/instance_status.h"
#include "tools/log_rotation.h"
#include "tools/output.h"

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
    {"flush", "", "try all deferred mail now", Command::flush},
    {"logrotate", "", "put the log file aside, begin a new one, compress the former one", Command::log_rotate},
    {"status", " [--json]", "what runs; session classes with their limits and counts", Command::status},
    {"check", " [--json] [--no-dns]", "what is wrong with the configuration and the directories", Command::check},
    {"import", " [--from DIR] [--to DIR] [-n] [--json] [--force]",
     "take over the configuration of Postfix (/etc/postfix) or of Debian's Exim\n"
     "--queue DIR [-n] [--json] [--remove]: the queue of a Postfix that is stopped",
     Command::import_from},
    {"export", " --queue DIR [--plain] [--json] [--remove]", "the queue as files that another mail system can take",
     Command::export_queue}};

/// Reads the words after a command into the options.
std::expected<void, service::Ending> read_command(const Row& row, const std::vector<std::string>& words,
                                                  InstanceTool::Options& o) {
  int port = static_cast<int>(o.instance.port);
  service::CommandLine line{.program = kProgram,
                            .usage = {std::string("penstock [-c DIR] ") + row.name + row.words},
                            .about = row.text,
                            .options = {}};
  if (row.command == Command::init)
    line.options.push_back({"--port N", "it listens there, on the loopback interface", service::into(port, 1, 65535)});
  if (row.command == Command::status) line.options.push_back({"--json", "as JSON", service::set(o.json)});
  if (row.command == Command::check)
    line.options = {{"--json", "as JSON", service::set(o.json)},
                    {"--no-dns", "look no names up", service::set(o.dns, false)}};
  if (row.command == Command::export_queue)
    line.options = {{"--queue DIR", "where the files go", service::into(o.export_queue.directory)},
                    {"--plain", "SMTP without parameters", service::set(o.export_queue.plain)},
                    {"--remove", "remove here what was written", service::set(o.export_queue.remove)},
                    {"--json", "a line for each message", service::set(o.export_queue.json)}};
  bool remove = false;
  if (row.command == Command::import_from) {
    auto& c = o.import_config;
    line.usage = {"penstock [-c DIR] import [--from DIR] [--to DIR] [-n] [--json] [--force]",
                  "penstock [-c DIR] import --queue DIR [-n] [--json] [--remove]"};
    line.about = "Takes over the configuration of another mail system, or the queue of a Postfix.";
    line.options = {
        {"--from DIR", "of main.cf, or of update-exim4.conf.conf (/etc/postfix)", service::into(c.from)},
        {"--to DIR", "where it goes (the directory of -c)", service::into(c.to)},
        {"--force", "replace a main.cf that is there, but for its directories and account", service::set(c.force)},
        {"--queue DIR", "its queue_directory, such as /var/spool/postfix", service::into(o.import_queue.directory)},
        {"--remove", "remove there what is safe here", service::set(remove)},
        {"-n, --dry-run", "say what would be done, and do nothing", service::set(c.dry_run)},
        {"--json", "the report as JSON; of a queue, a line for each message", service::set(c.json)}};
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  auto rest = line.read(static_cast<int>(argv.size()), argv.data());
  if (!rest) return std::unexpected(rest.error());
  if (row.command == Command::init) {
    if (rest->empty()) return std::unexpected(line.misuse("init needs a directory"));
    o.instance.port = static_cast<unsigned>(port);
    o.instance.directory = rest->front();
    rest->erase(rest->begin());
  }
  if (row.command == Command::import_from) {
    o.import_queue.dry_run = o.import_config.dry_run;
    o.import_queue.json = o.import_config.json;
    o.import_queue.remove = remove;
    if (remove && o.import_queue.directory.empty()) return std::unexpected(line.misuse("--remove is for --queue"));
    if (!o.import_queue.directory.empty() && (o.import_config.force || !o.import_config.to.empty()))
      return std::unexpected(line.misuse("--to and --force are for a configuration, not for --queue"));
  }
  if (row.command == Command::export_queue && o.export_queue.directory.empty())
    return std::unexpected(line.misuse("export needs --queue DIR"));
  if (rest->empty()) return {};
  return std::unexpected(line.misuse(std::string(row.name) + ": unexpected \"" + printable(rest->front()) + "\""));
}

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  print(fmt::format(format, std::forward<T>(values)...) + "\n");
}

}  // namespace

std::expected<InstanceTool::Options, service::Ending> InstanceTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{.program = kProgram,
                            .usage = {"penstock [-c DIR] COMMAND"},
                            .about = "Makes, starts, stops and looks at a Penstock instance.",
                            .options = {},
                            .options_end_at_a_word = true,
                            .help_names = "-h, --help"};
  for (const Row& row : kCommands) line.options.push_back({std::string(row.name) + row.words, row.text});
  line.options.push_back({"", "Options before the command:"});
  line.options.push_back({"-c DIR", "the directory of main.cf and master.cf (MAIL_CONFIG, else /etc/penstock)",
                          service::into(o.directory)});
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  const auto* row = std::ranges::find(kCommands, words->front(), &Row::name);
  if (row == std::end(kCommands))
    return std::unexpected(line.misuse("unknown command \"" + printable(words->front()) + "\""));
  o.command = row->command;
  if (auto read = read_command(*row, *words, o); !read) return std::unexpected(read.error());
  return o;
}

int InstanceTool::run() {
  if (options_.command == Command::init) return init();
  const std::string directory = config::config_directory(options_.directory);
  if (options_.command == Command::check) return check(directory, {.json = options_.json, .dns = options_.dns});
  if (options_.command == Command::import_from && options_.import_queue.directory.empty()) {
    if (options_.import_config.to.empty()) options_.import_config.to = directory;
    return ConfigImport(options_.import_config).run();
  }
  const auto config = config::load(directory);
  if (!config) return fail_with(EX_CONFIG, config.error().message());
  InstanceControl control(*config);
  switch (options_.command) {
    case Command::init:
    case Command::check:
      break;
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
    case Command::flush:
      return control.flush();
    case Command::log_rotate:
      return rotate_log(*config);
    case Command::import_from:
      return QueueImport(*config, options_.import_queue).run();
    case Command::export_queue:
      return QueueExport(*config, options_.export_queue).run();
    case Command::status:
      return print_status(*config, options_.json);
  }
  return EX_SOFTWARE;
}

int InstanceTool::init() {
  const NewInstance& what = options_.instance;
  if (const auto ok = make_instance(what); !ok) return fail_with(EX_CANTCREAT, ok.error().message());
  say("made an instance in {}: it will listen on port {} of the loopback interface", what.directory, what.port);
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

}  // namespace pen::tools
