#pragma once
/// What signs and seals in an instance: the tables of keys of main.cf and of each service of master.cf, with its -o.
///
/// Use:     const Signers signers = signers_of(config);
///          for (const auto& table : signers.tables) … table.signing->named_keys() …
/// Errors:  are in faults, each with the service that it concerns where it is not main.cf's: a table that cannot be
///          read, a key of arc_seal_key that cannot be had.
/// Thread:  any. Reads files.
/// Source:  docs/dkim.md, docs/arc.md.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"
#include "lib/trust/signing/signing.h"

namespace pen::tools {

struct Signers {
  /// One table of keys, or the one key of an opendkim.conf.
  struct Table {
    std::shared_ptr<const signing::Signing> signing;
    std::vector<std::string> sealing;  // the names of keys that seal, as arc_seal_key has them
    bool seals(std::string_view key) const;
  };
  std::vector<Table> tables;
  std::vector<std::string> faults;
  bool wanted = false;  // some mail is to be signed or sealed
};

Signers signers_of(const config::Config& config);

}  // namespace pen::tools
