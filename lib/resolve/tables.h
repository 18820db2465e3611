#pragma once
/// The tables and lists of resolving, opened. Internal to lib/resolve.
#include <array>

#include "lib/resolve/resolve.h"

namespace pen::resolve {

struct Tables {
  map::MatchList mydestination, virtual_alias_domains, virtual_mailbox_domains, relay_domains;
  map::MapList virtual_alias, virtual_mailbox, relay_recipient, local_recipient, canonical,
      sender_canonical, recipient_canonical, transport, sender_relayhost, sender_transport;
  bool transport_parent_domains = false;
  std::vector<std::string> own_addresses;
  std::string myorigin;

  static Result<Tables> open(const Options& options);
  /// mydestination, or a literal of an own address.
  Result<bool> is_local(std::string_view domain) const;
  Result<AddressClass> class_of(std::string_view domain) const;
  /// The partial keys for look-ups of this address.
  Result<map::AddressKeys> keys_for(const Options& options, std::string_view address) const;
  std::array<const map::MapList*, 10> all() const {
    return {&virtual_alias,    &virtual_mailbox, &relay_recipient,  &local_recipient,
            &canonical,        &transport,       &sender_canonical, &recipient_canonical,
            &sender_relayhost, &sender_transport};
  }
  bool blocking() const;
  bool route_blocking() const;
  bool route_asks_tables() const;
  std::vector<Error> problems() const;
};

Result<std::string> map_canonical(const Options& options, const Tables& tables,
                                  std::string_view address, Place place);
Result<Expansion> map_virtual(const Options& options, const Tables& tables,
                              std::string_view recipient);

}  // namespace pen::resolve
