#include "tools/doctor_names.h"

#include <algorithm>
#include <set>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/loop.h"
#include "lib/base/text.h"
#include "lib/net/dns.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/trust/dkim/key_record.h"
#include "lib/trust/mta_sts/fetch.h"
#include "lib/trust/mta_sts/policy.h"
#include "tools/signers.h"

namespace pen::tools {
namespace {

using net::RecordType;
using State = Told::State;

constexpr std::size_t kMostKeys = 50;

Told told(const net::DnsAnswer& answer) {
  Told t;
  switch (answer.outcome) {
    case net::DnsOutcome::found:
      t.state = State::found;
      break;
    case net::DnsOutcome::no_data:
    case net::DnsOutcome::no_domain:
      t.state = State::missing;
      break;
    case net::DnsOutcome::temporary:
      t.state = State::unknown;
      break;
  }
  auto records = answer.records;
  std::ranges::sort(records, {}, [](const net::DnsRecord& r) { return std::pair(r.preference, r.data); });
  for (auto& record : records) t.values.push_back(std::move(record.data));
  return t;
}

/// Both kinds of addresses as one answer.
Told both(Told a, Told b) {
  a.values.insert(a.values.end(), b.values.begin(), b.values.end());
  if (!a.values.empty())
    a.state = State::found;
  else if (a.state == State::unknown || b.state == State::unknown)
    a.state = State::unknown;
  return a;
}

struct Asking {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  net::Resolver dns;
  async::Until until;
  AskedNames& out;
  std::vector<Told> policy_hosts;  // addresses, of each domain
  std::size_t open = 0;

  Asking(net::ResolverOptions options, AskedNames& into)
      : dns(loop, pool, std::move(options)), until{.deadline = loop.now() + kNamesTime}, out(into) {}
  void done() {
    if (--open == 0) loop.stop();
  }
};

async::Task<Told> addresses(Asking* a, std::string name) {
  auto four = told(co_await a->dns.lookup(name, RecordType::a, a->until));
  auto six = told(co_await a->dns.lookup(name, RecordType::aaaa, a->until));
  co_return both(std::move(four), std::move(six));
}

async::Task<void> ask_host(Asking* a) {
  NameFacts& f = a->out.names;
  f.addresses = co_await addresses(a, f.hostname);
  for (const std::string& address : f.addresses.values)
    f.reverse[address] = told(co_await a->dns.lookup_reverse(address, a->until));
  a->out.tlsa = told(co_await a->dns.lookup("_25._tcp." + f.hostname, RecordType::tlsa, a->until));
  a->done();
}

async::Task<void> ask_domain(Asking* a, std::size_t i) {
  const std::string name = a->out.names.domains[i].name;
  DomainFacts f;
  f.name = name;
  f.mx = told(co_await a->dns.lookup(name, RecordType::mx, a->until));
  f.addresses = co_await addresses(a, name);
  f.mx_addresses.state = f.mx.state;
  for (const std::string& host : f.mx.values) {
    Told of = co_await addresses(a, host);
    if (of.state == State::unknown) f.mx_addresses.state = State::unknown;
    if (of.state == State::missing && !host.empty()) f.lost.push_back(host);
    f.mx_addresses.values.insert(f.mx_addresses.values.end(), of.values.begin(), of.values.end());
  }
  f.spf = told(co_await a->dns.lookup(name, RecordType::txt, a->until));
  f.dmarc = told(co_await a->dns.lookup("_dmarc." + name, RecordType::txt, a->until));
  f.mta_sts = told(co_await a->dns.lookup("_mta-sts." + name, RecordType::txt, a->until));
  if (mta_sts::read_records(f.mta_sts.values)) a->policy_hosts[i] = co_await addresses(a, "mta-sts." + name);
  a->out.names.domains[i] = std::move(f);
  a->done();
}

async::Task<void> ask_key(Asking* a, std::size_t i) {
  const std::string name = a->out.keys[i].name;
  a->out.keys[i].records = told(co_await a->dns.lookup(name, RecordType::txt, a->until));
  a->done();
}

/// The keys that sign or seal, with what their files hold.
std::vector<std::string> list_keys(const config::Config& config, AskedNames& out) {
  std::vector<std::string> bytes;
  Signers signers = signers_of(config);
  out.key_faults = std::move(signers.faults);
  for (const auto& table : signers.tables) {
    const auto named = table.signing->named_keys();
    if (!named) {
      out.key_faults.push_back(named.error().message());
      continue;
    }
    for (const auto& one : *named) {
      if (out.keys.size() == kMostKeys) break;
      KeyFacts facts;
      facts.name = dkim::key_name(one.entry.selector, one.entry.domain);
      const auto key = table.signing->key(one.entry);
      if (!key) facts.fault = key.error().message();
      bytes.emplace_back(key ? std::string((*key)->public_bytes()) : std::string());
      out.keys.push_back(std::move(facts));
    }
  }
  return bytes;
}

void compare(KeyFacts& facts, const std::string& bytes) {
  for (const std::string& text : facts.records.values) {
    const auto record = dkim::KeyRecord::parse(text);
    if (!record) continue;
    facts.same = facts.same.value_or(false) || record->key == bytes;
    facts.testing = facts.testing || record->testing;
  }
}

void fetch_policies(const config::Config& config, Asking& a) {
  mta_sts::FetchOptions options;
  options.ca_file = config.text("smtp_mta_sts_CAfile").value_or("");
  options.limit = milliseconds(10'000);
  const auto fetcher = mta_sts::https_fetcher(std::move(options));
  for (std::size_t i = 0; i < a.policy_hosts.size(); ++i) {
    DomainFacts& domain = a.out.names.domains[i];
    if (!mta_sts::read_records(domain.mta_sts.values)) continue;
    if (a.policy_hosts[i].state != State::found) {
      domain.policy_fault = "mta-sts." + domain.name + " has no address in DNS";
      continue;
    }
    auto fetched = fetcher->fetch({.domain = domain.name, .addresses = a.policy_hosts[i].values});
    if (fetched.outcome == mta_sts::FetchOutcome::ok)
      domain.policy = std::move(fetched.body);
    else
      domain.policy_fault = std::move(fetched.why);
  }
}

}  // namespace

std::vector<std::string> own_domains(const config::Config& config) {
  std::vector<std::string> domains;
  std::set<std::string> seen;
  for (const char* name : {"mydestination", "virtual_mailbox_domains", "virtual_alias_domains", "relay_domains"}) {
    for (const auto& item : config.list(name).value_or(std::vector<std::string>())) {
      const std::string domain = to_lower(item);
      const bool plain = domain.find_first_of(":/!{}$[]") == std::string::npos && !domain.starts_with('.');
      if (!plain || domain.find('.') == std::string::npos || domain.ends_with(".localdomain") ||
          domain.ends_with(".localhost") || !seen.insert(domain).second)
        continue;
      if (domains.size() < kMostDomains) domains.push_back(domain);
    }
  }
  return domains;
}

AskedNames ask_names(const config::Config& config) {
  AskedNames out;
  const config::Settings& s = config.settings();
  out.names.hostname = to_lower(s.myhostname);
  out.names.helo = to_lower(config.text("smtp_helo_name").value_or(s.myhostname));
  for (const std::string& domain : own_domains(config)) {
    DomainFacts facts;
    facts.name = domain;
    // The host's own name gets mail at its address.
    if (domain != out.names.hostname) out.names.domains.push_back(std::move(facts));
  }
  const auto keys = list_keys(config, out);
  auto servers = resolve::name_servers(s, resolve::read_resolv_conf());
  if (!servers) {
    out.fault = servers.error().message();
    return out;
  }
  Asking asking(*std::move(servers), out);
  asking.policy_hosts.resize(out.names.domains.size());
  asking.open = 1 + out.names.domains.size() + out.keys.size();
  asking.loop.spawn("host", ask_host(&asking));
  for (std::size_t i = 0; i < out.names.domains.size(); ++i) asking.loop.spawn("domain", ask_domain(&asking, i));
  for (std::size_t i = 0; i < out.keys.size(); ++i) asking.loop.spawn("key", ask_key(&asking, i));
  asking.loop.run();
  for (std::size_t i = 0; i < out.keys.size(); ++i) compare(out.keys[i], keys[i]);
  fetch_policies(config, asking);
  return out;
}

}  // namespace pen::tools
