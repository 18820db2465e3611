#pragma once
/// What the modules share.
///
/// Use:     PEN_TABLE_DRIVER(SqliteDriver)        once per module, for its Driver
#include <algorithm>
#include <chrono>

#include "lib/map/database_driver.h"

namespace pen::map::database {

/// The time that is left, in whole units and at least one: libraries take 0 for "no limit".
template <class Unit>
int left_until(SteadyTime deadline) {
  const auto left = std::chrono::ceil<Unit>(deadline - system_clock().now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 1, 1'000'000));
}

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
