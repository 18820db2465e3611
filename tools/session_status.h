#pragma once
/// The counts of anvil, for `penstock status`.
#include <expected>
#include <string>

#include "lib/config/config.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::tools {

/// Asks the running anvil; it may take ten seconds to find that it is silent. The error is part of a sentence: why
/// anvil cannot be reached.
std::expected<ipc::sessions::Status, std::string> session_status(const config::Config& config);

}  // namespace pen::tools
