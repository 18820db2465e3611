#include "trivial-rewrite/dane.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/net/tls/tlsa.h"

namespace pen::rewrite {

using ipc::TlsLevel;
using net::DnsAnswer;
using net::DnsOutcome;
using net::RecordType;

namespace {

constexpr std::size_t kMaxRecords = 100;      // of a host
constexpr std::size_t kMaxText = 2 * 16'384;  // of a record: a whole certificate in hex

bool usable(std::string_view text) {
  if (text.size() > kMaxText) return false;
  const auto record = tls::parse_tlsa(text);
  return record && tls::usable_for_smtp(*record);
}

/// The level cannot be kept: with dane-only the mail waits, with dane it goes at `level`.
void settle_for(Decision& d, TlsLevel level, const std::string& why) {
  if (d.policy.level == TlsLevel::dane_only) {
    d.dsn = "4.7.4";
    d.problem = "TLS is required at level dane-only (" + d.rule + "), but " + why;
    return;
  }
  d.policy.level = level;
  d.rule += ": " + why;
}

}  // namespace

TlsaSet read_tlsa(const DnsAnswer& answer) {
  TlsaSet set;
  set.ttl = answer.ttl;
  for (const auto& record : answer.records)
    if (set.records.size() < kMaxRecords && usable(record.data)) set.records.push_back(record.data);
  set.kind = set.records.empty() ? TlsaSet::Kind::unusable : TlsaSet::Kind::usable;
  return set;
}

async::Task<TlsaSet> find_tlsa(net::Resolver& dns, std::string host, unsigned short port, HostFacts facts,
                               std::shared_ptr<const resolve::DnsFilter> filter, map::Asker* tables) {
  std::vector<std::string> bases;
  if (facts.secure) {
    bases.push_back(facts.canonical);
    if (facts.canonical != host) bases.push_back(host);
  } else if (!facts.canonical.empty() && facts.canonical != host) {
    // The addresses are not secure, but the first alias may be: then its owner's records count (section 2.1.3).
    const DnsAnswer alias = co_await dns.lookup(host, RecordType::cname);
    // Making this look-up fail must not be a way around the records (section 2.1.1).
    if (alias.outcome == DnsOutcome::temporary) {
      TlsaSet unknown;
      unknown.kind = TlsaSet::Kind::failed;
      unknown.text = alias.text;
      unknown.ttl = std::max(alias.ttl, seconds(1));
      co_return unknown;
    }
    if (alias.outcome == DnsOutcome::found && alias.authenticated) bases.push_back(host);
  }
  TlsaSet none;
  for (const std::string& base : bases) {
    DnsAnswer answer = co_await dns.lookup("_" + std::to_string(port) + "._tcp." + base, RecordType::tlsa);
    if (filter) co_await filter->apply(*tables, answer);
    none.ttl = std::min(none.ttl, std::max(answer.ttl, seconds(1)));
    if (answer.outcome == DnsOutcome::temporary) {
      none.kind = TlsaSet::Kind::failed;
      none.text = answer.text;
      co_return none;
    }
    if (answer.outcome != DnsOutcome::found || !answer.authenticated) continue;
    TlsaSet set = read_tlsa(answer);
    set.base = base;
    set.ttl = std::min(set.ttl, none.ttl);
    co_return set;
  }
  co_return none;
}

void apply_dane(Decision& decision, const NextHop& hop, const std::string& host, const HostFacts& facts,
                const TlsaSet& set, TlsLevel insecure_mx) {
  ipc::TlsPolicy& policy = decision.policy;
  const bool only = policy.level == TlsLevel::dane_only;
  if (facts.by_mx && !facts.mx_secure && (only || insecure_mx < TlsLevel::dane)) {
    settle_for(decision, insecure_mx, "the MX records of " + hop.host + " are not secure in DNS");
    return;
  }
  switch (set.kind) {
    case TlsaSet::Kind::failed:
      decision.dsn = "4.7.4";
      decision.problem =
          "TLSA look-up error for " + host + ":" + std::to_string(hop.port) + ": " + printable(set.text, 200);
      return;
    case TlsaSet::Kind::none:
      settle_for(decision, TlsLevel::may, "host " + host + " has no secure TLSA records");
      return;
    case TlsaSet::Kind::unusable:
      settle_for(decision, TlsLevel::encrypt, "the TLSA records of host " + host + " cannot be used");
      return;
    case TlsaSet::Kind::usable:
      break;
  }
  policy.level = TlsLevel::dane;
  policy.tlsa = set.records;
  std::ranges::sort(policy.tlsa);  // equal sets give equal keys
  // Section 3.2.2: with DANE-TA the certificate is for the TLSA base domain. It may also be for the name the mail is
  // addressed to, if nobody else can have led us here (secure MX records, or the host itself).
  policy.servername = set.base;
  policy.match = {set.base};
  const auto also = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(policy.match, name) == policy.match.end()) policy.match.push_back(name);
  };
  if (facts.by_mx && facts.mx_secure) {
    also(hop.host);
    also(facts.mx_canonical);
  } else if (host == hop.host) {
    also(host);
  }
  policy.trust_anchors.clear();  // only the records count
}

}  // namespace pen::rewrite
