#pragma once
/// DANE for SMTP: which TLSA records count for a mail host, and what a destination's TLS policy becomes by them.
///
/// Use:     TlsaSet set = co_await find_tlsa(dns, host, port, facts);       // where the policy's level is dane or
///          dane-only apply_dane(decision, hop, facts, set, options);
/// Trust:   "secure" is the AD bit of the resolver that dns_resolver_addresses names: it must validate, and the path
///          to it must be safe (the same host, best). Without it nothing is secure and dane is no more than may.
/// Rules:   RFC 7672 section 2.1.1 (secure, insecure, bogus), 2.1.3 (aliases), 2.2 (MX), 3.1 (usages), 3.2.2 (names).
///          A TLSA look-up that fails, as a bogus one does, makes the host unusable: mail waits, at both levels.
/// Thread:  the loop's.
/// Source:  RFC 7671, RFC 7672; Postfix TLS_README "DANE".
#include <string>
#include <vector>

#include "lib/net/dns.h"
#include "trivial-rewrite/hosts.h"
#include "trivial-rewrite/tls_policy.h"

namespace pen::rewrite {

/// What was found of one host.
struct TlsaSet {
  enum class Kind {
    none,      // nothing secure says that there are records
    unusable,  // there are, and none that SMTP may use
    usable,
    failed  // nobody knows
  };
  Kind kind = Kind::none;
  std::vector<std::string> records;  // usable ones: "usage selector matching hex"
  std::string base;                  // the name that they are of
  std::string text;                  // of a failure
  seconds ttl{3600};
};

/// Of an answer with records: those that SMTP may use (tls::usable_for_smtp), 100 of them at most. Pure.
TlsaSet read_tlsa(const net::DnsAnswer& answer);

/// Looks _port._tcp.host up: under the name its aliases lead to, then under its own, as far as DNS is secure there.
async::Task<TlsaSet> find_tlsa(net::Resolver& dns, std::string host, unsigned short port, HostFacts facts);

/// Makes of a decision of level dane or dane-only what its host's records say: dane with them, encrypt, may, or a
/// problem. Pure.
void apply_dane(Decision& decision, const NextHop& hop, const std::string& host, const HostFacts& facts,
                const TlsaSet& set, ipc::TlsLevel insecure_mx);

}  // namespace pen::rewrite
