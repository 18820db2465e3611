#pragma once
/// The log level of TLS for one peer: smtp_tls_loglevel_maps, smtpd_tls_loglevel_maps.
///
/// Use:     const Result<int> level = find_log_level(maps, name, address, parents, usual);
/// Keys:    the peer's name and its parents, then its address and its networks, as access(5) has them; DUNNO ends the
///          search without a result.
/// Errors:  a table that cannot be read; bad_spec for a value that is no level. The caller then logs at the usual
///          level.
/// Thread:  any.
#include <string>
#include <string_view>

#include "lib/map/map.h"

namespace pen::map {

inline constexpr int kMaxLogLevel = 4;

/// name: empty when it is not known. parents: parent_domain_matches_subdomains names the setting.
Result<int> find_log_level(const MapList& maps, std::string_view name, std::string_view address, bool parents,
                           int usual);

}  // namespace pen::map
