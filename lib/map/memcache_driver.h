#pragma once
/// The driver of memcache: tables. It needs no library, and so is no module.
#include "lib/map/database_driver.h"

namespace pen::map::database {

/// Lives as long as the process.
Driver* memcache_driver();

}  // namespace pen::map::database
