#pragma once
/// The files of private keys that the key process alone is to read (docs/keys.md).
///
/// Use:     const Secrets secrets = secrets_of(config, row, machine);   … secrets.hidden
/// Rules:   none for the key process itself, none where there is no such process (config::key_socket()), none that root
///          alone can read: its mode keeps it closed. DKIM keys stay readable where the signer must read them: tables
///          that are looked up, and those with % in them.
/// Pure but for `machine`; any thread.
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lib/config/config.h"
#include "lib/suite/confine/named_files.h"
#include "lib/suite/confine/programs.h"

namespace pen::confine {

/// Whether a setting is about keys, and of no use to others than the key process.
bool names_keys(std::string_view setting);
/// Of DKIM: the same, where the key process can list the table.
bool names_dkim_keys(std::string_view setting);

struct Secrets {
  bool tls = false, dkim = false;  // the key process has them
  std::set<std::string> files;     // all
  std::set<std::string> hidden;    // those of them that must be closed by rules
};
Secrets secrets_of(const config::Config& config, const Program& row, const Machine& machine);

}  // namespace pen::confine
