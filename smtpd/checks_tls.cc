/// Restrictions about client certificates: their fingerprints in tables.
#include "lib/base/log.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

/// Looks up the fingerprints of the certificate and its key. Sets `name` to the last fingerprint looked up.
[[gnu::noinline]] async::Task<map::AddressValue> look_up_certificate(Evaluation& e, const map::MapList& maps,
                                                                     std::vector<Print> order, Name& name) {
  if (!e.subject.client->tls || !e.subject.client->tls->certificate) co_return std::nullopt;
  for (const Print print : order) {
    const std::string& text =
        print == Print::key ? e.subject.client->tls->key_fingerprint : e.subject.client->tls->fingerprint;
    name = Name{text, "Client certificate"};
    map::AddressValue found = co_await look_up(e, maps, text);
    if (!found || *found) co_return found;
  }
  co_return std::nullopt;
}

}  // namespace

async::Task<Answer> check_ccert_access(Evaluation& e, const Restriction& r, const Name& name) {
  Name print = name;
  const auto found = co_await look_up_certificate(e, r.maps, r.prints, print);
  co_return co_await act_on(e, found, r, std::move(print));
}

Answer permit_tls_all_clientcerts(Evaluation& e, const Restriction& r, const Name&) {
  return e.subject.client->tls && e.subject.client->tls->trusted ? e.permits(r.name, e.client_name()) : Answer::dunno;
}

async::Task<Answer> permit_tls_clientcerts(Evaluation& e, const Restriction& r, const Name&) {
  Name name;
  const map::AddressValue found =
      co_await look_up_certificate(e, e.policy.relay_clientcerts, {Print::certificate, Print::key}, name);
  if (!found) {
    log::warning("relay_clientcerts: {}", found.error().message());
    co_return e.table_problem(e.subject.client->peer.shown());
  }
  co_return *found ? e.permits(r.name, e.client_name()) : Answer::dunno;
}

}  // namespace pen::smtpd::restrictions
