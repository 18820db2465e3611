#pragma once
/// The error for a bad rule of a table: the reason, and the file and line of the rule.
#include <string>

#include "lib/map/map.h"

namespace pen::map {

inline std::unexpected<Error> bad_rule(const std::string& path, unsigned line, std::string_view why) {
  return fail(MapError::syntax, path + ", line " + std::to_string(line) + ": " + std::string(why));
}

}  // namespace pen::map
