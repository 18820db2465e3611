#pragma once
/// DANE for SMTP: finds the TLSA records of a mail host, and applies them to the TLS policy of a destination.
///
/// Use:     TlsaSet set = co_await find_tlsa(dns, host, port, facts);   // if the policy's level is dane or dane-only
///          apply_dane(decision, hop, facts, set, options);
/// Trust:   "secure" is the AD bit of the resolver that dns_resolver_addresses names. The resolver must validate, and
///          the path to it must be safe (best on this host). Without such a resolver nothing is secure, and dane
///          means may.
/// Rules:   RFC 7672 section 2.1.1 (secure, insecure, bogus), 2.1.3 (aliases), 2.2 (MX), 3.1 (usages), 3.2.2 (names).
///          A failed TLSA look-up, such as a bogus one, makes the host unusable: at both levels the mail waits.
/// Thread:  the loop's.
/// Source:  RFC 7671, RFC 7672; Postfix TLS_README "DANE".
#include <string>
#include <vector>

#include "lib/net/dns.h"
#include "trivial-rewrite/hosts.h"
#include "trivial-rewrite/tls_policy.h"

namespace pen::rewrite {

/// The result for one host.
struct TlsaSet {
  enum class Kind {
    none,      // DNS has no secure answer with records
    unusable,  // there are records, but none that SMTP may use
    usable,
    failed  // the look-up failed
  };
  Kind kind = Kind::none;
  std::vector<std::string> records;  // usable ones: "usage selector matching hex"
  std::string base;                  // the name that has them
  std::string text;                  // the reason of a failure
  seconds ttl{3600};
};

/// Keeps the records of an answer that SMTP may use (tls::usable_for_smtp), at most 100. Pure.
TlsaSet read_tlsa(const net::DnsAnswer& answer);

/// Looks up _port._tcp.host: first below the end of the host's aliases, then below its own name, if DNS is secure
/// there.
/// filter: smtp_dns_reply_filter; nullptr: none. tables are needed with a filter only.
async::Task<TlsaSet> find_tlsa(net::Resolver& dns, std::string host, unsigned short port, HostFacts facts,
                               std::shared_ptr<const resolve::DnsFilter> filter = nullptr,
                               map::Asker* tables = nullptr);

/// Changes a decision of level dane or dane-only as the host's records demand: to dane, encrypt, may, or a problem.
/// Pure.
void apply_dane(Decision& decision, const NextHop& hop, const std::string& host, const HostFacts& facts,
                const TlsaSet& set, ipc::TlsLevel insecure_mx);

}  // namespace pen::rewrite
