#pragma once
/// Lists the tables of a configuration that penmap and penalias make from a text.
///
/// Use:     for (const OwnTable& t : own_tables(config)) if (t.has_text() && !t.is_made()) …
/// Finds:   lmdb, hash, btree and cdb tables in settings of main.cf and -o options of master.cf that act, also within
///          unionmap and pipemap. Each file comes once. Tables of alias_maps and alias_database are aliases.
/// Thread:  any.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct OwnTable {
  std::string type, text;  // "hash", "/etc/penstock/transport"
  bool aliases = false;
  bool of_files = false;     // of tls_server_sni_maps: what stands in the files that the text names is put in
  std::string file() const;  // text.lmdb, text.cdb
  bool has_text() const;
  bool is_made() const;
  /// The table is made, and its text was changed since, or a file whose content is in it.
  bool is_stale() const;
  /// What makes it anew: "penmap hash:/etc/penstock/transport".
  std::string command() const;
};
std::vector<OwnTable> own_tables(const config::Config& config);

}  // namespace pen::tools
