#include "tools/multi_tool.h"

#include <sysexits.h>

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"
#include "tools/instance_control.h"
#include "tools/instance_runner.h"

namespace pen::tools {
namespace {

using Mode = MultiTool::Mode;
using Action = Lifecycle::Action;

struct Row {
  const char* name;
  Action action;
};
constexpr Row kActions[] = {{"init", Action::init},       {"create", Action::create},  {"import", Action::import},
                            {"destroy", Action::destroy}, {"deport", Action::deport},  {"assign", Action::assign},
                            {"enable", Action::enable},   {"disable", Action::disable}};

}  // namespace

std::expected<MultiTool::Options, service::Ending> MultiTool::read(int argc, const char* const* argv) {
  Options o;
  std::string action;
  bool verbose = false;
  const std::string modes = "-l, -p, -x and -e";
  const auto named = [&](std::string& text, bool& given) {
    return [&text, &given](const service::Given& g) -> std::string {
      text = g.value;
      given = true;
      return {};
    };
  };
  const service::CommandLine line{
      .program = "postmulti",
      .usage = {"postmulti -l [-aj] [-g GROUP] [-i NAME]", "postmulti -p [-a] [-g GROUP] [-i NAME] COMMAND",
                "postmulti -x [-aR] [-g GROUP] [-i NAME] PROGRAM [ARGUMENT ...]",
                "postmulti -e ACTION [-i NAME] [-I NAME] [-G GROUP] [NAME=VALUE ...]"},
      .about = "Lists the instances of this host, runs commands for them, makes and deletes them.",
      .options = {{"-l", "list them: name, group, whether it is enabled, directory",
                   service::choose(o.mode, Mode::list, modes)},
                  {"-p", "run a command of penstock for each", service::choose(o.mode, Mode::penstock, modes)},
                  {"-x", "run any program for each", service::choose(o.mode, Mode::command, modes)},
                  {"-e ACTION", "init, create, import, destroy, deport, assign, enable or disable",
                   service::into(action)},
                  {"-j", "with -l: JSON", service::set(o.json)},
                  {"-a", "all instances", service::set(o.choice.all)},
                  {"-g GROUP", "those of a group", service::into(o.choice.group)},
                  {"-i NAME", "one; \"-\" is the first, a path its directory", service::into(o.choice.name)},
                  {"-R", "in reverse order", service::set(o.choice.reverse)},
                  {"-I NAME", "assign, create, import: its name", named(o.change.new_name, o.change.sets_name)},
                  {"-G GROUP", "assign, create, import: its group", named(o.change.new_group, o.change.sets_group)},
                  {"-c DIR", "the directory of the first instance", service::into(o.directory)},
                  {"-v", "changes nothing", service::set(verbose)}},
      .options_end_at_a_word = true};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (!action.empty()) {
    if (o.mode != Mode::none) return std::unexpected(line.misuse("only one of " + modes));
    const auto* row = std::ranges::find(kActions, action, &Row::name);
    if (row == std::end(kActions)) return std::unexpected(line.misuse("unknown action \"" + printable(action) + "\""));
    o.mode = Mode::change;
    o.change.action = row->action;
    o.change.choice = o.choice;
    o.change.settings = *std::move(words);
    const bool takes_settings = row->action == Action::create || row->action == Action::import;
    if (!takes_settings && !o.change.settings.empty())
      return std::unexpected(line.misuse("unexpected \"" + printable(o.change.settings.front()) + "\""));
    return o;
  }
  if (o.mode == Mode::none) return std::unexpected(line.incomplete());
  if (o.json && o.mode != Mode::list) return std::unexpected(line.misuse("-j is for -l"));
  if (o.change.sets_name || o.change.sets_group) return std::unexpected(line.misuse("-I and -G are for -e"));
  o.words = *std::move(words);
  const bool takes_words = o.mode == Mode::penstock || o.mode == Mode::command;
  if (takes_words && o.words.empty()) return std::unexpected(line.misuse("which command?"));
  if (!takes_words && !o.words.empty())
    return std::unexpected(line.misuse("unexpected \"" + printable(o.words.front()) + "\""));
  return o;
}

int MultiTool::run() {
  const auto first = config::inspect(config::config_directory(options_.directory));
  if (!first) return fail_with(EX_CONFIG, first.error().message());
  if (options_.mode == Mode::change) return change_instances(*first, options_.change);
  const auto all = list_instances(*first);
  const auto chosen = choose(all, options_.choice);
  if (!chosen) return fail_with(EX_USAGE, chosen.error());
  switch (options_.mode) {
    case Mode::list:
      return print_instances(*chosen, options_.running, options_.json);
    case Mode::penstock:
      return run_turns(turns(*chosen, options_.words, kinds_of(first->settings()), !options_.choice.name.empty()));
    case Mode::command:
      return run_command(*chosen, options_.words) == EX_OK ? EX_OK : 1;  // whatever the command said, as in Postfix
    case Mode::none:
    case Mode::change:
      break;
  }
  return EX_SOFTWARE;
}

}  // namespace pen::tools
