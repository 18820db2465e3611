#include "lib/net/host_addresses.h"

#include "lib/net/hosts_file.h"

namespace pen::net {
namespace {

bool wanted(HostFamilies families, RecordType type) { return type == RecordType::aaaa ? families.ipv6 : families.ipv4; }

}  // namespace

async::Task<HostAddresses> host_addresses(Resolver& resolver, async::HandlerPool& pool, std::string hosts_file,
                                          std::string name, HostFamilies families, async::Until until) {
  HostAddresses out;
  const auto listed = co_await pool.run([&hosts_file, &name] { return read_hosts_file(hosts_file, name); });
  if (!listed) {
    out.outcome = DnsOutcome::temporary;
    out.why = listed.error().message();
    co_return out;
  }
  for (const RecordType type : {RecordType::a, RecordType::aaaa})
    for (const auto& address : *listed)
      if (address.contains(':') == (type == RecordType::aaaa) && wanted(families, type))
        out.addresses.push_back(address);
  if (!out.addresses.empty()) {
    out.outcome = DnsOutcome::found;
    co_return out;
  }
  for (const RecordType type : {RecordType::a, RecordType::aaaa}) {
    if (!wanted(families, type)) continue;
    DnsAnswer answer = co_await resolver.lookup(name, type, until);
    for (auto& record : answer.records) out.addresses.push_back(std::move(record.data));
    if (answer.outcome == DnsOutcome::found || out.outcome == DnsOutcome::temporary) continue;
    if (answer.outcome == DnsOutcome::temporary) out.outcome = DnsOutcome::temporary;
    out.why = "DNS: " + answer.text;
  }
  if (!out.addresses.empty()) {
    out.outcome = DnsOutcome::found;
    out.why.clear();
  }
  co_return out;
}

}  // namespace pen::net
