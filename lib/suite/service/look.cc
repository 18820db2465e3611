#include "lib/suite/service/look.h"

#include <sysexits.h>

#include <cstdio>
#include <set>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/map/database_table.h"
#include "lib/map/debug_map.h"
#include "lib/map/map.h"
#include "lib/map/notes.h"
#include "lib/suite/confine/programs.h"
#include "lib/suite/service/approved_tables.h"

namespace pen::service {
namespace {

bool may_open(std::string_view program, std::string_view setting) {
  const config::Row* row = config::find_row(setting);
  return row != nullptr && confine::reads(*row, program);
}

/// What start() depends on, and what comes before it in run().
Result<void> read_all(const Options& options, Context& context) {
  PEN_TRY(apply_settings(context.settings()));
  PEN_TRY(log_options(context.settings(), options.name, false));
  let_tables_ask(context);
  if (!options.look) return {};
  return options.look(context);
}

}  // namespace

void open_own_tables_alone(const std::string& program) {
  map::permit_settings([program = std::string(confine::settings_name(program))](std::string_view setting) {
    return may_open(program, setting);
  });
}

void let_tables_ask(const Context& context) {
  map::database::ask_main_cf([&context](const std::string& name) { return context.config().text(name); });
  map::approve_proxied([&context](const std::string& table) { return approves(context.config(), table); });
  map::on_table_note(log::as_warning);
  map::on_debug_look_up(log::as_info);
}

int look(const Options& options, const Arguments& arguments) {
  auto config = config::inspect(config::config_directory(arguments.config_directory));
  if (!config) {
    std::printf("error %s\n", config.error().message().c_str());
    return EX_CONFIG;
  }
  static std::set<std::string> opened, undeclared;
  map::permit_settings([program = std::string(confine::settings_name(options.name))](std::string_view setting) {
    opened.emplace(setting);
    const bool ours = may_open(program, setting);
    if (!ours) undeclared.emplace(setting);
    return ours;
  });
  async::Loop loop;
  Context context(loop, config->with(arguments.settings()), arguments, Owners{}, {});
  bool fine = true;
  for (const config::Problem& problem : context.config().problems()) {
    if (problem.severity != config::Severity::error) continue;
    fine = false;
    std::printf("unreadable %s\n", problem.message().c_str());
  }
  const auto read = read_all(options, context);
  if (!read) std::printf("error %s\n", read.error().message().c_str());
  for (const std::string& setting : opened) std::printf("opens %s\n", setting.c_str());
  for (const std::string& setting : undeclared) std::printf("undeclared %s\n", setting.c_str());
  std::fflush(stdout);
  std::_Exit(fine && read && undeclared.empty() ? EX_OK : EX_CONFIG);  // as in run(): nothing depends on a destructor
}

}  // namespace pen::service
