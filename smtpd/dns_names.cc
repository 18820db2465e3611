#include "smtpd/dns_names.h"

#include <algorithm>

#include "lib/mail/charset.h"
#include "lib/net/host_addresses.h"
#include "lib/receive/resolve/peer_name.h"

namespace pen::smtpd {

using net::DnsOutcome;
using net::RecordType;

namespace {

NameState state_of(resolve::PeerName::State state) {
  switch (state) {
    case resolve::PeerName::State::ok:
      return NameState::ok;
    case resolve::PeerName::State::temporary:
      return NameState::temporary;
    case resolve::PeerName::State::missing:
      break;
  }
  return NameState::missing;
}

/// A name that cannot be looked up as it is (U-labels): it is accepted rather than refused.
bool beyond_dns(std::string_view name) { return !mail::all_ascii(name); }

}  // namespace

async::Task<ClientName> DnsNames::client(std::string address, async::Until until) {
  resolve::PeerName found = co_await resolve::peer_name(resolver_, std::move(address), until);
  co_return ClientName{.verified = state_of(found.verified),
                       .reverse = state_of(found.reverse),
                       .name = std::move(found.name),
                       .reverse_name = std::move(found.reverse_name),
                       .forward = state_of(found.forward)};
}

async::Task<NameState> DnsNames::has_address(std::string name, async::Until until) {
  const net::DnsAnswer a = co_await filtered(name, RecordType::a, until);
  if (a.outcome == DnsOutcome::found) co_return NameState::ok;
  if (a.outcome == DnsOutcome::no_domain) co_return NameState::missing;
  const net::DnsAnswer aaaa = co_await filtered(name, RecordType::aaaa, until);
  if (aaaa.outcome == DnsOutcome::found) co_return NameState::ok;
  if (a.outcome == DnsOutcome::temporary || aaaa.outcome == DnsOutcome::temporary) co_return NameState::temporary;
  co_return NameState::missing;
}

async::Task<HostAddresses> DnsNames::addresses(std::string name, Families families, async::Until until) {
  net::HostAddresses found = co_await net::host_addresses(resolver_, pool_, hosts_file_, std::move(name),
                                                          {.ipv4 = families.ipv4, .ipv6 = families.ipv6}, until);
  co_return HostAddresses{.state = found.outcome == DnsOutcome::found       ? NameState::ok
                                   : found.outcome == DnsOutcome::temporary ? NameState::temporary
                                                                            : NameState::missing,
                          .addresses = std::move(found.addresses),
                          .why = std::move(found.why)};
}

async::Task<net::DnsAnswer> DnsNames::filtered(std::string name, net::RecordType type, async::Until until) {
  net::DnsAnswer answer = co_await resolver_.lookup(std::move(name), type, until);
  if (!filter_.empty()) co_await filter_.apply(*tables_, answer);
  co_return answer;
}

async::Task<net::DnsAnswer> DnsNames::records(std::string name, net::RecordType type, async::Until until) {
  if (filter_.empty()) return resolver_.lookup(std::move(name), type, until);
  return filtered(std::move(name), type, until);
}

async::Task<NameState> DnsNames::mail_domain(std::string domain, async::Until until) {
  if (beyond_dns(domain)) co_return NameState::ok;
  const net::DnsAnswer mx = co_await filtered(domain, RecordType::mx, until);
  switch (mx.outcome) {
    case DnsOutcome::found:
      co_return mx.records.size() == 1 && mx.records.front().data.empty() ? NameState::null_mx : NameState::ok;
    case DnsOutcome::no_domain:
      co_return NameState::missing;
    case DnsOutcome::temporary:
      co_return NameState::temporary;
    case DnsOutcome::no_data:
      break;
  }
  co_return co_await has_address(std::move(domain), until);
}

async::Task<NameState> DnsNames::host(std::string name, async::Until until) {
  if (beyond_dns(name)) co_return NameState::ok;
  const NameState address = co_await has_address(name, until);
  if (address == NameState::ok) co_return address;
  const net::DnsAnswer mx = co_await filtered(std::move(name), RecordType::mx, until);
  if (mx.outcome == DnsOutcome::found) co_return NameState::ok;
  co_return mx.outcome == DnsOutcome::temporary ? NameState::temporary : address;
}

}  // namespace pen::smtpd
