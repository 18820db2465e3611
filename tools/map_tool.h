#pragma once
/// The common part of penmap and penalias: builds, queries, changes and lists tables.
///
/// Manual:  man/penmap.1, man/penalias.1. Source: Postfix postmap(1), postalias(1).
#include "lib/config/config.h"
#include "tools/map_options.h"

namespace pen::tools {

/// The whole program; returns the exit status: 0, 1 (-q and -d: nothing found), or what
/// service::own_status() makes of one of sysexits.h.
int map_tool(int argc, char** argv, const char* name, Source source);

/// Makes anew the tables of a configuration with a text that was changed since, for penstock start and reload; a line
/// of standard error names each. One that cannot be made stays as it is, and is named too.
void renew_stale_tables(const config::Config& config);

}  // namespace pen::tools
