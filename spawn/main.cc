/// spawn: a command for each connection, as master.cf names it. See man/spawn.8.
#include <fmt/format.h>
#include <paths.h>

#include <algorithm>
#include <memory>

#include "lib/base/log.h"
#include "lib/config/values.h"
#include "lib/mailbox/accounts.h"
#include "lib/mailbox/command_account.h"
#include "lib/mailbox/environment.h"
#include "lib/service/service.h"
#include "spawn/child.h"
#include "spawn/options.h"

namespace {

using namespace pen;

// Where master.cf sets no limit: each connection is a process.
constexpr std::size_t kMost = 1000;

struct Program {
  async::Loop& loop;
  spawner::Command command;
  seconds limit{0};
  std::uint64_t started = 0, failed = 0;
};

auto wrong(const std::string& service, const std::string& why) {
  return fail(config::ConfigError::bad_value, fmt::format("master.cf: {}: {}", service, why));
}

Result<std::shared_ptr<Program>> read(service::Context& context) {
  const config::Settings& s = context.settings();
  const std::string& service = context.service();
  auto program = std::make_shared<Program>(Program{.loop = context.loop(), .command = {}});
  auto options = spawner::parse_options(context.arguments().rest);
  if (!options) return wrong(service, options.error());
  PEN_TRY_ASSIGN(const auto who, mailbox::command_account(options->user, options->group, context.owner().uid,
                                                          context.owner().gid, service));
  PEN_TRY_ASSIGN(program->command.become, mailbox::rights_for(who));
  program->command.argv = std::move(options->argv);
  program->command.environment = mailbox::exported_environment(s.export_environment);
  program->command.environment.emplace_back("PATH=" _PATH_DEFPATH);
  const auto own = context.config().lookup_transport(service, "time_limit");
  const auto limit = own ? config::parse_time(*own, 's') : std::optional(s.command_time_limit);
  if (!limit || *limit < seconds(1)) return wrong(service, service + "_time_limit is no time above zero");
  program->limit = std::chrono::duration_cast<seconds>(*limit);
  return program;
}

async::Task<void> serve(std::shared_ptr<Program> program, async::Stream stream, async::Listener::Slot /*place*/) {
  using Kind = spawner::Ending::Kind;
  ++program->started;
  const auto& name = program->command.argv.front();
  const auto how = co_await spawner::run_command(program->loop, program->command, std::move(stream), program->limit);
  if (how.kind == Kind::exited && how.code == 0) co_return;
  ++program->failed;
  if (how.kind == Kind::exited)
    log::warning("command {} exit status {}", name, how.code);
  else if (how.kind == Kind::signalled)
    log::warning("command {} killed by signal {}", name, how.code);
  else if (how.kind == Kind::time_limit)
    log::warning("process id {}: command time limit exceeded: {}", how.pid, name);
  else
    log::warning("{}", how.why);
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(const auto program, read(context));
  context.serve(
      [program](async::Listener::Accepted accepted) {
        return serve(program, std::move(accepted.stream), std::move(accepted.slot));
      },
      std::min(context.limit(), kMost));
  return service::Hooks{.status = [program] {
    return std::vector<std::string>{fmt::format("{} commands started, {} failed", program->started, program->failed)};
  }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "spawn", .summary = "runs a command for each connection", .keep_privileges = true}, start);
}
