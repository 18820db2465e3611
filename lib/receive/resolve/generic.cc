#include "lib/receive/resolve/generic.h"

#include "lib/base/text.h"
#include "lib/receive/resolve/tables.h"

namespace pen::resolve {

Result<Generic> Generic::open(Options options, const std::string& maps) {
  Generic g;
  g.options_ = std::move(options);
  PEN_TRY_ASSIGN(auto tables, Tables::open_local(g.options_));
  g.tables_ = std::make_shared<const Tables>(std::move(tables));
  PEN_TRY_ASSIGN(g.maps_, map::MapList::open(maps, g.options_.open));
  return g;
}

Result<std::string> Generic::map(std::string_view address) const {
  const bool propagate = list_contains(options_.propagate_unmatched_extensions, "generic");
  PEN_TRY_ASSIGN(auto mapped, map_once(options_, *tables_, maps_, address, propagate));
  return mapped ? std::move(mapped->front()) : std::string(address);
}

}  // namespace pen::resolve
