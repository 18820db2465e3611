#pragma once
/// The modules that talk to databases: shared objects, loaded when first used, so that a host without databases needs
/// no client library.
///
/// Files:   libexec/penstock/tables/TYPE.so, beside the program that runs (../libexec/penstock/tables from bin).
/// Errors:  unknown_type: the module is not there; its context says what is wanted. unreadable: it cannot be loaded.
/// Thread:  any. A module stays loaded.
#include <string>

#include "lib/map/database_driver.h"
#include "lib/map/map.h"

namespace pen::map::database {

Result<Driver*> find_driver(const std::string& type);
/// The directory of the modules, for tests: their programs lie elsewhere.
void modules_in(const std::string& directory);

}  // namespace pen::map::database
