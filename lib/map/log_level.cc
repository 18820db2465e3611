#include "lib/map/log_level.h"

#include "lib/base/text.h"
#include "lib/base/tls_log_level.h"

namespace pen::map {

Result<int> find_log_level(const MapList& maps, std::string_view name, std::string_view address, bool parents,
                           int usual) {
  AddressValue found = std::nullopt;
  if (!name.empty()) found = find_access_name(maps, name, parents);
  if (found && !*found && !address.empty()) found = find_access_network(maps, address);
  if (!found) return std::unexpected(std::move(found).error());
  if (!*found) return usual;
  const std::string_view value = trim((*found)->value);
  if (iequals(value, "dunno")) return usual;
  const auto level = parse_unsigned(split_tls_log_level(value).level);
  if (!level || *level > kMaxLogLevel)
    return fail(MapError::bad_spec, printable((*found)->key, 255) + ": not a log level: " + printable(value, 100));
  return static_cast<int>(*level);
}

}  // namespace pen::map
