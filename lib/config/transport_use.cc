#include "lib/config/transport_use.h"

namespace pen::config {

bool transport_is_used(const Settings& s, std::string_view transport) {
  const auto names = [&](std::string_view value) { return value.substr(0, value.find(':')) == transport; };
  return names(s.default_transport) || names(s.mailbox_transport) || names(s.fallback_transport) ||
         (names(s.local_transport) && !s.mydestination.empty()) ||
         (names(s.relay_transport) && !s.relay_domains.empty()) ||
         (names(s.virtual_transport) && !s.virtual_mailbox_domains.empty());
}

}  // namespace pen::config
