#pragma once
/// The sources of outgoing mail as the settings have them: the file, the tables that name pools, the warm-up.
///
/// Use:     auto [setup, faults] = read_setup(settings, read_sources_file(settings), map_options);
///          const auto pool = setup.pool_for({.transport = …, .tenant = …, .sender = …});
/// Errors:  of tables only: then nobody knows the pool, and the mail waits.
/// Thread:  any; immutable but for the tables' own reloading.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/settings.h"
#include "lib/map/map.h"
#include "lib/send/egress/file.h"

namespace pen::egress {

/// What a pool is chosen by.
struct Mail {
  std::string_view transport;
  std::string_view tenant;  // empty: none
  std::string_view sender;  // empty: the null sender, looked up as <>
};

struct Setup {
  File file;
  map::MapList pool_maps;
  const Pool* default_pool = nullptr;
  std::vector<std::uint32_t> schedule;
  /// Mail is sent from sources at all.
  bool in_use() const { return default_pool != nullptr || !pool_maps.empty(); }
  /// nullptr: from no source. Looked up, the first that is there: transport:NAME, tenant:NAME, the sender without and
  /// with its extension removed, @domain. Errors: of a table, or one that names a pool that is not in the file
  /// (MapError::syntax).
  Result<const Pool*> pool_for(const Mail& mail) const;
  std::string delimiters;  // recipient_delimiter
};

struct SetupRead {
  std::shared_ptr<Setup> setup;     // what could be read
  std::vector<std::string> faults;  // a line each, with the setting, or file and line
};
/// The text of egress_sources_file; "" if there is none. It has passwords of proxies, and may be root's.
Result<std::string> read_sources_file(const config::Settings& settings);
SetupRead read_setup(const config::Settings& settings, const Result<std::string>& sources_file,
                     const map::OpenOptions& options = {});
/// Addresses of sources that mail would be bound to and that this host does not have.
std::vector<std::string> strange_addresses(const config::Settings& settings, const File& file);

}  // namespace pen::egress
