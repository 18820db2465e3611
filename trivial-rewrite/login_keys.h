#pragma once
/// Finds the key of <program>_sasl_password_maps for the login at a host.
///
/// Use:     auto key = keys.find(sender, next_hop_as_written, host);      // through an Asker
/// Secrets: only the key leaves this module. It becomes Destination::credentials, by which connections are shared,
///          and the delivery program looks up the password with it. Neither queue manager nor log ever has a
///          password.
/// Order:   the sender (user+extension@domain, user@domain, @domain) where smtp_sender_dependent_authentication is set;
///          then the host; then the next hop as it was written, with its port where it has one.
/// Source:  Postfix SASL_README "Enabling SASL authentication in the Postfix SMTP/LMTP client", postconf(5).
/// Thread:  any; immutable.
#include <string>
#include <string_view>

#include "lib/map/map.h"

namespace pen::rewrite {

struct LoginKeys {
  bool sender_dependent = false;
  map::MapList maps;       // empty: no login at all
  std::string delimiters;  // recipient_delimiter

  bool blocking() const { return maps.blocking(); }
  /// Empty: no login at this host.
  Result<std::string> find(std::string_view sender, std::string_view next_hop, std::string_view host) const;
};

}  // namespace pen::rewrite
