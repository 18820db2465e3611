#pragma once
/// Guesses which known name was meant.
#include <span>
#include <string>
#include <string_view>

namespace pen::config {

/// The known name with the fewest edits (insert, delete, change, swap of neighbours) from name; empty when none is
/// close: at most a quarter of the name's length and at most 4 edits. Names over 200 bytes are never close. Pure; any
/// thread.
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace pen::config
