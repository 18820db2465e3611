#pragma once
/// The version of the programs of this build. A function, so that one line of one file makes another version: the test
/// of upgrades links master a second time with a version of its own.
/// Thread:  any.
#include <string_view>

namespace pen {

/// "0.1.0"
std::string_view version();

}  // namespace pen
