#pragma once
/// What the modules share.
///
/// Use:     PEN_TABLE_DRIVER(SqliteDriver)        once per module, for its Driver
#include "lib/map/database_driver.h"
#include "lib/map/database_waits.h"

namespace pen::map::database {

inline bool is_yes(const Settings& settings, std::string_view name) {
  const std::string& text = setting(settings, name);
  return text == "yes" || text == "YES" || text == "Yes" || text == "1" || text == "true";
}

}  // namespace pen::map::database

#define PEN_TABLE_DRIVER(Type)                                                                         \
  extern "C" __attribute__((visibility("default"))) pen::map::database::Driver* penstock_table_driver( \
      unsigned version);                                                                               \
  extern "C" pen::map::database::Driver* penstock_table_driver(unsigned version) {                     \
    static Type driver;                                                                                \
    return version == pen::map::database::kDriverVersion ? &driver : nullptr;                          \
  }
