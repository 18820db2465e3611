#include "lib/suite/service/running.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/text.h"
#include "lib/suite/service/lock.h"

namespace pen::service {

Result<Interim> interim(const config::Config& config) {
  Interim now;
  auto keeper = running_keeper(config.directory());
  if (keeper && *keeper) {
    now.keeper = *std::move(keeper);
    return now;
  }
  // Programs are known by a lock, also where no keeper can be looked for.
  PEN_TRY_ASSIGN(now.programs, programs_run(state_directory(config.settings())));
  if (!keeper && !now.programs) return std::unexpected(std::move(keeper).error());
  return now;
}

std::string describe(const Keeping& keeper) {
  const std::string what = keeper.text.empty() ? "a master is being started" : printable(keeper.text);
  return fmt::format("keeper pid {}: {}", keeper.process.pid(), what);
}

std::string describe(const Interim& now) {
  if (now.keeper) return describe(*now.keeper);
  return now.programs ? "programs of a former master go on" : "nothing of it runs";
}

Result<bool> anything_runs(const config::Config& config) {
  PEN_TRY_ASSIGN(const auto master, running_master(state_directory(config.settings())));
  if (master) return true;
  PEN_TRY_ASSIGN(const Interim now, interim(config));
  return now.any();
}

}  // namespace pen::service
