/// Restrictions about client certificates: their fingerprints in tables.
#include "lib/base/log.h"
#include "smtpd/checks.h"

namespace pen::smtpd {

async::Task<map::AddressValue> Checks::look_up_certificate(const map::MapList& maps, std::vector<Print> order,
                                                           Name& name) {
  if (!subject_.client->tls || !subject_.client->tls->certificate) co_return std::nullopt;
  for (const Print print : order) {
    const std::string& text =
        print == Print::key ? subject_.client->tls->key_fingerprint : subject_.client->tls->fingerprint;
    name = Name{text, "Client certificate"};
    map::AddressValue found = co_await look_up(maps, text);
    if (!found || *found) co_return found;
  }
  co_return std::nullopt;
}

Checks::Answer Checks::permit_tls_all_clientcerts(const Restriction& r, const Name&) {
  return subject_.client->tls && subject_.client->tls->trusted ? permits(r.name, client_name()) : Answer::dunno;
}

async::Task<Checks::Answer> Checks::permit_tls_clientcerts(const Restriction& r, const Name&) {
  Name name;
  const map::AddressValue found =
      co_await look_up_certificate(policy_.relay_clientcerts, {Print::certificate, Print::key}, name);
  if (!found) {
    log::warning("relay_clientcerts: {}", found.error().message());
    co_return table_problem(subject_.client->peer.shown());
  }
  co_return *found ? permits(r.name, client_name()) : Answer::dunno;
}

}  // namespace pen::smtpd
