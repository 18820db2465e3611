#pragma once
/// Asks DNS lists as soon as a name is known, in the background, all at once: the restrictions that need the answers
/// find them under way or there. An answer that nobody needs in the end does no harm.
///
/// Use:     if (policy.named_lists) ask_ahead_about_address(lists, policy.named_lists->client_address, peer.address);
/// Not for: clients whose mail is taken without asking (mynetworks, a login): our own users' correspondents are
///          nobody's business. Their restrictions ask when they are evaluated.
/// Thread:  the loop's.
#include <string>
#include <string_view>

#include "lib/meaning/smtpd/named_lists.h"
#include "lib/net/dnsbl/lookup.h"
#include "smtpd/client.h"

namespace pen::smtpd {

/// Whether lists are asked ahead about this client.
bool asked_ahead(const ClientFacts& client);

void ask_ahead_about_address(dnsbl::Lookup& lists, const NamedLists::Domains& domains, std::string_view address);
/// A host name, or the domain of an address.
void ask_ahead_about_name(dnsbl::Lookup& lists, const NamedLists::Domains& domains, std::string_view name);

}  // namespace pen::smtpd
