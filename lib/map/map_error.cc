#include "lib/map/map.h"

namespace pen::map {

std::string_view error_module(MapError) { return "map"; }
std::string_view describe(MapError e) {
  switch (e) {
    case MapError::bad_spec:
      return "bad table specification";
    case MapError::unknown_type:
      return "unsupported table type";
    case MapError::syntax:
      return "syntax error in table";
    case MapError::unreadable:
      return "table unavailable";
    case MapError::read_only:
      return "table type cannot be changed";
    case MapError::too_large:
      return "table, key or value too large";
    case MapError::name_service:
      return "name service failure";
    case MapError::not_trusted:
      return "table not safe here";
    case MapError::unapproved:
      return "table not approved";
    case MapError::undeclared:
      return "table that this program must not open";
    case MapError::pending:
      return "answer has not come yet";
  }
  return "unknown";
}

}  // namespace pen::map
