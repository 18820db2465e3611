/// spawn: a command for each connection, as master.cf names it. See man/spawn.8.
#include <fmt/format.h>
#include <paths.h>

#include <algorithm>
#include <memory>

#include "lib/base/log.h"
#include "lib/config/values.h"
#include "lib/meaning/spawn/options.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/command_account.h"
#include "lib/send/mailbox/environment.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/service/service.h"
#include "spawn/serve.h"

namespace {

using namespace pen;

// Where master.cf sets no limit: each connection is a process.
constexpr std::size_t kMost = 1000;

struct Program {
  async::Loop& loop;
  std::string name;  // of the command
  seconds limit{0};
  std::size_t at_once = 0;
  std::uint64_t started = 0, failed = 0;
};

/// The command that runs, and its account; made while the process has root's rights, and kept by the helper from then
/// on.
mailbox::Policy policy;

auto wrong(const std::string& service, const std::string& why) {
  return fail(config::ConfigError::bad_value, fmt::format("master.cf: {}: {}", service, why));
}

Result<void> start_helper(const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper) {
  const config::Settings& s = config.settings();
  const std::string& service = arguments.service;
  auto options = spawner::parse_options(arguments.rest);
  if (!options) return wrong(service, options.error());
  PEN_TRY_ASSIGN(policy.account,
                 mailbox::command_account(options->user, options->group, mailbox::mail_accounts(s, owners), service));
  PEN_TRY(mailbox::rights_for(policy.account));
  policy.service = mailbox::Policy::Service::connections;
  policy.argv = std::move(options->argv);
  policy.environment = mailbox::exported_environment(s.export_environment);
  policy.environment.emplace_back("PATH=" _PATH_DEFPATH);
  const auto own = config.lookup_transport(service, "time_limit");
  const auto limit = own ? config::parse_time(*own, 's') : std::optional(s.command_time_limit);
  if (!limit || *limit < seconds(1)) return wrong(service, service + "_time_limit is no time above zero");
  policy.limit = std::chrono::duration_cast<seconds>(*limit);
  policy.at_once = arguments.limit == 0 ? kMost : std::min<std::size_t>(arguments.limit, kMost);
  return mailbox::start_helper(policy, config, arguments, owners, helper);
}

async::Task<void> serve(std::shared_ptr<Program> program, async::Stream stream, async::Listener::Slot /*place*/) {
  using Kind = mailbox::CommandEnd::Kind;
  ++program->started;
  const std::string& name = program->name;
  const auto end = co_await spawner::serve_connection(program->loop, std::move(stream), program->limit);
  if (end && end->kind == Kind::exited && end->code == 0) co_return;
  ++program->failed;
  if (!end)
    log::warning("command {}: {}", name, end.error().message());
  else if (end->kind == Kind::exited)
    log::warning("command {} exit status {}", name, end->code);
  else if (end->kind == Kind::signalled)
    log::warning("command {} killed by signal {}", name, end->code);
  else if (end->kind == Kind::time_limit)
    log::warning("process id {}: command time limit exceeded: {}", end->pid, name);
  else
    log::warning("{}", Error::from_errno(end->code,
                                         (end->kind == Kind::not_executed ? "cannot execute " : "cannot start ") + name)
                           .message());
}

Result<service::Hooks> start(service::Context& context) {
  const auto program = std::make_shared<Program>(
      Program{.loop = context.loop(), .name = policy.argv.front(), .limit = policy.limit, .at_once = policy.at_once});
  context.serve(
      [program](async::Listener::Accepted accepted) {
        return serve(program, std::move(accepted.stream), std::move(accepted.slot));
      },
      program->at_once);
  return service::Hooks{.status = [program] {
    return std::vector<std::string>{fmt::format("{} commands started, {} failed", program->started, program->failed)};
  }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "spawn", .summary = "runs a command for each connection", .start_helper = start_helper},
      start);
}
