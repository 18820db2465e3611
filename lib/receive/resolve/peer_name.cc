#include "lib/receive/resolve/peer_name.h"

#include <algorithm>

#include "lib/base/network.h"
#include "lib/mail/address.h"

namespace pen::resolve {

using net::DnsOutcome;
using net::RecordType;
using State = PeerName::State;

async::Task<PeerName> peer_name(net::Resolver& resolver, std::string address, async::Until until) {
  PeerName result;
  if (address.starts_with("127.") || address == "::1") {
    result.verified = result.reverse = result.forward = State::ok;
    result.name = result.reverse_name = "localhost";
    co_return result;
  }
  const net::DnsAnswer reverse = co_await resolver.lookup_reverse(address, until);
  if (reverse.outcome != DnsOutcome::found || reverse.records.empty()) {
    if (reverse.outcome == DnsOutcome::temporary) result.verified = result.reverse = result.forward = State::temporary;
    co_return result;
  }
  std::string name = reverse.records.front().data;
  if (!mail::valid_hostname(name) || mail::numeric_hostname(name)) co_return result;
  result.reverse = State::ok;
  result.reverse_name = name;
  const auto own = parse_ip(address);
  const RecordType type = address.find(':') != std::string::npos ? RecordType::aaaa : RecordType::a;
  const net::DnsAnswer forward = co_await resolver.lookup(name, type, until);
  if (forward.outcome == DnsOutcome::found) result.forward = State::ok;
  if (forward.outcome == DnsOutcome::temporary) {
    result.verified = result.forward = State::temporary;
  } else if (std::ranges::any_of(forward.records, [&](const auto& r) { return parse_ip(r.data) == own; })) {
    result.verified = State::ok;
    result.name = std::move(name);
  }
  co_return result;
}

}  // namespace pen::resolve
