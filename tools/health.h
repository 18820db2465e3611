#pragma once
/// penstock health: is the mail system well enough to get work? For the health check of containers and load balancers.
///
/// Use:     return health(config);
/// Well:    master runs and answers a signal, the queue manager answers, and each of master's services for SMTP over
///          the network greets; others are connected to. What the configuration names and master has not read yet
///          (a reload) does not count. A standby that waits is well.
/// Returns: EX_OK; EX_UNAVAILABLE, it does not run; EX_TEMPFAIL, something does not answer, as standard error says.
/// Bounds:  kConnectTime (doctor_probes.h), for all of them side by side.
#include "lib/config/config.h"

namespace pen::tools {

int health(const config::Config& config);

}  // namespace pen::tools
