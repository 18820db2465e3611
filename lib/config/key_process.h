#pragma once
/// Whether private keys are held by a process of their own (docs/keys.md).
///
/// Use:     if (const auto socket = config::key_socket(config)) … ask there; no private key can be read
/// Rules:   tls_key_process = yes, and master.cf has the service tls_key_service_name with the program keys. An older
///          master.cf has none: then each program reads its keys itself.
/// Pure.
#include <optional>
#include <string>

#include "lib/config/config.h"

namespace pen::config {

inline constexpr const char* kKeyProgram = "keys";
/// Below queue_directory; nullopt: each program reads its keys itself.
std::optional<std::string> key_socket(const Config& config);

}  // namespace pen::config
