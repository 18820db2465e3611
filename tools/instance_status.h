#pragma once
/// penstock status: the running services, and the session classes with their limits and counts.
///
/// Use:     return print_status(config, json);
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/config/config.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::tools {

/// Prints to standard output. Returns the exit status: EX_UNAVAILABLE, the mail system does not run; EX_TEMPFAIL, there
/// is no master at the moment, and the next one is to come. Waits for one that is due.
int print_status(const config::Config& config, bool json);

/// Master is there, and another host has the queue's lease.
bool waits_as_standby(const config::Config& config);

/// The content of master.status as a table.
std::string services_table(const nlohmann::ordered_json& status);

/// What holds the running programs, as they said themselves, and what this kernel does not have for it.
std::string confinement_table(const nlohmann::ordered_json& status, const confine::Offers& offers);

/// The counts of anvil, or why it cannot be reached.
using SessionClasses = std::expected<ipc::sessions::Status, std::string>;
std::string classes_table(const SessionClasses& classes);
nlohmann::ordered_json to_json(const SessionClasses& classes);

}  // namespace pen::tools
