#pragma once
/// The parameters that a table file of each database type may have, with their defaults.
#include <span>
#include <string_view>

namespace pen::map::database {

enum class Of {
  lookup,      // says what is asked
  connection,  // says which server, with which login and how: other values need other connections
  nothing,     // known, and without effect
};
struct Parameter {
  std::string_view name, initial;
  Of of = Of::lookup;
};
/// Sorted by nothing; a few dozen at most.
std::span<const Parameter> parameters_of(std::string_view type);

}  // namespace pen::map::database
