#pragma once
/// What anvil counts, for `penstock status`.
#include <expected>
#include <string>

#include "lib/config/config.h"
#include "lib/ipc/sessions.h"

namespace pen::tools {

/// Asks the running anvil, which may take ten seconds to be found silent. The error is a sentence part that says why it
/// cannot be asked.
std::expected<ipc::sessions::Status, std::string> session_status(const config::Config& config);

}  // namespace pen::tools
