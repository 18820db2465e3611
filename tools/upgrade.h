#pragma once
/// penstock upgrade: the running mail system becomes the version that is installed now.
///
/// How:     a signal tells master, which asks the new master whether it can take over, becomes it and replaces its
///          programs one after the other (docs/upgrade.md); what it does stands in its status file and is printed here.
/// Errors:  the function reports them and returns the exit status: EX_UNAVAILABLE (not running, or a master that cannot
///          do it), EX_CONFIG (the new version cannot take over: nothing was changed), EX_TEMPFAIL (it runs, but a
///          program of the old version was kept; or it takes longer than expected), EX_NOPERM.
#include "lib/config/config.h"

namespace pen::tools {

int upgrade(const config::Config& config);

}  // namespace pen::tools
