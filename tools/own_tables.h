#pragma once
/// The tables of a configuration that are made from a text by penmap and penalias.
///
/// Use:     for (const OwnTable& t : own_tables(config)) if (t.has_text() && !t.is_made()) …
/// Finds:   lmdb, hash, btree and cdb tables of main.cf and of the -o of master.cf, in the settings that act, within
///          unionmap and pipemap too. Each file once. Tables of alias_maps and alias_database are aliases.
/// Thread:  any.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct OwnTable {
  std::string type, text;  // "hash", "/etc/penstock/transport"
  bool aliases = false;
  std::string file() const;  // text.lmdb, text.cdb
  bool has_text() const;
  bool is_made() const;
};
std::vector<OwnTable> own_tables(const config::Config& config);

}  // namespace pen::tools
