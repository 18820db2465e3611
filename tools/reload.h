#pragma once
/// penstock reload: has master take the configuration, and waits until new programs serve with it.
///
/// Waits:   for each service that may have two programs, as long as a new program may take (upgrade_program_timeout);
///          not for exclusive ones such as qmgr, whose old program first finishes what it has in hand.
#include "lib/config/config.h"
#include "lib/suite/service/lock.h"

namespace pen::tools {

/// Returns the exit status: 78, master refuses the configuration and goes on with what it has; 75, a service goes on
/// with its former settings, because its new program does not serve, or it takes longer.
int reload_and_wait(const config::Config& config, const service::Process& master);

}  // namespace pen::tools
