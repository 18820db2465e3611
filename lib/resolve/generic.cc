#include "lib/resolve/generic.h"

#include "lib/base/text.h"
#include "lib/resolve/tables.h"

namespace pen::resolve {

Result<Generic> Generic::open(Options options, const std::string& maps) {
  Generic g;
  for (std::string* other : {&options.virtual_alias_domains, &options.virtual_mailbox_domains, &options.relay_domains,
                             &options.virtual_alias_maps, &options.virtual_mailbox_maps, &options.relay_recipient_maps,
                             &options.local_recipient_maps, &options.canonical_maps, &options.sender_canonical_maps,
                             &options.recipient_canonical_maps, &options.transport_maps,
                             &options.sender_dependent_relayhost_maps, &options.sender_dependent_default_transport_maps,
                             &options.relocated_maps, &options.masquerade_domains, &options.masquerade_exceptions})
    other->clear();
  g.options_ = std::move(options);
  PEN_TRY_ASSIGN(auto tables, Tables::open(g.options_));
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
