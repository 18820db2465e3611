#pragma once
/// The open tables and lists of resolving. Internal to lib/receive/resolve.
#include <array>

#include "lib/receive/resolve/masquerade.h"
#include "lib/receive/resolve/sender_rewriting.h"

namespace pen::resolve {

struct Tables {
  map::MatchList mydestination, virtual_alias_domains, virtual_mailbox_domains, relay_domains;
  map::MapList virtual_alias, virtual_mailbox, relay_recipient, local_recipient, canonical, sender_canonical,
      recipient_canonical, transport, sender_relayhost, sender_transport, relocated;
  Masquerade masquerade;
  std::shared_ptr<const SenderRewriting> srs;  // nullptr: senders are not rewritten
  bool transport_parent_domains = false;
  std::vector<std::string> own_addresses;
  std::string myorigin;

  static Result<Tables> open(const Options& options);
  /// Only what is_local() and keys_for() need.
  static Result<Tables> open_local(const Options& options);
  /// Whether the domain is in mydestination, or is a literal of an address of ours.
  Result<bool> is_local(std::string_view domain) const;
  Result<AddressClass> class_of(std::string_view domain) const;
  /// The postmaster of srs_domain, where that is no other domain of ours: he is ours.
  Result<bool> is_srs_postmaster(std::string_view address) const;
  /// The partial keys for look-ups of this address.
  Result<map::AddressKeys> keys_for(const Options& options, std::string_view address) const;
  std::array<const map::MapList*, 11> all() const {
    return {&virtual_alias,    &virtual_mailbox,     &relay_recipient,  &local_recipient,  &canonical, &transport,
            &sender_canonical, &recipient_canonical, &sender_relayhost, &sender_transport, &relocated};
  }
  bool blocking() const;
  bool route_blocking() const;
  bool canonical_blocking() const;
  bool route_asks_tables() const;
  std::vector<Error> problems() const;
};

/// "envelope_sender" and so on: the words of the settings *_classes.
std::string_view word_of(Place place);

/// One look-up of an address: the addresses that replace it; nullopt: no table has it. propagate: the results get the
/// extension that the key omitted.
Result<std::optional<std::vector<std::string>>> map_once(const Options& options, const Tables& tables,
                                                         const map::MapList& maps, std::string_view address,
                                                         bool propagate);
Result<std::string> map_canonical(const Options& options, const Tables& tables, std::string_view address, Place place);
Result<Expansion> map_virtual(const Options& options, const Tables& tables, std::string_view recipient);

}  // namespace pen::resolve
