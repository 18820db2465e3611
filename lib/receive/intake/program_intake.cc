#include "lib/receive/intake/program_intake.h"

#include "lib/base/random.h"
#include "lib/map/map.h"

namespace pen::intake {

ProgramIntake::ProgramIntake(async::Loop& loop, async::HandlerPool& pool, std::string qmgr_socket,
                             std::shared_ptr<const resolve::Resolve> resolve, Settings settings, Logs logs,
                             std::uint64_t inline_limit)
    : queue(loop, std::move(qmgr_socket), inline_limit),
      ids(loop.clock(), Random(secure_random_u64())),
      intake{.loop = loop,
             .pool = pool,
             .queue = queue,
             .resolve = resolve,
             .settings = std::move(settings),
             .next_queue_id = [this] { return ids.next(); },
             .expansion_waits = expansion_may_wait(resolve->options(), intake.settings.copies),
             .log_info = std::move(logs.info),
             .log_warning = std::move(logs.warning)} {}

std::string ProgramIntake::status_line() const {
  const std::string& why = queue.last_error();
  return std::string("queue manager ") + (queue.connected() ? "connected" : "not connected") +
         (why.empty() ? "" : ": " + why);
}

void tell(const Settings& settings, const resolve::Resolve& resolve, const ProgramIntake::Logs& logs) {
  for (const auto& problem : resolve.problems()) logs.warning(map::advice(problem));
  if (resolve.canonical_blocking())
    logs.warning("canonical tables that ask another process do not see addresses in headers");
  for (const auto& warning : settings.warnings) logs.warning(warning);
  if (!settings.checks) return;
  for (const auto& problem : settings.checks->problems()) logs.warning(map::advice(problem));
  if (const auto why = settings.checks->slower_because(); !why.empty()) logs.info(why);
}

}  // namespace pen::intake
