#include "smtpd/lists_ahead.h"

#include "lib/net/dnsbl/question.h"

namespace pen::smtpd {

bool asked_ahead(const ClientFacts& client) { return client.peer.trusted == false && !client.login; }

void ask_ahead_about_address(dnsbl::Lookup& lists, const NamedLists::Domains& domains, std::string_view address) {
  for (const auto& domain : domains)
    if (const auto question = dnsbl::about_address(address, domain)) lists.begin(domain, *question);
}

void ask_ahead_about_name(dnsbl::Lookup& lists, const NamedLists::Domains& domains, std::string_view name) {
  for (const auto& domain : domains)
    if (const auto question = dnsbl::about_name(name, domain)) lists.begin(domain, *question);
}

}  // namespace pen::smtpd
