/// Restrictions on the hosts behind a name: check_*_a_access, check_*_mx_access, check_*_ns_access, permit_mx_backup.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

// A stranger's domain may have any number of servers, each with a name that takes long to look up.
constexpr std::size_t kMaxLookUps = 100;    // of names, for one restriction; Postfix: as many addresses
constexpr std::size_t kMaxAddresses = 100;  // Postfix: dns_rr_list_limit
constexpr seconds kPatience{30};            // for all of them

using net::DnsOutcome;
using net::RecordType;

/// "MX", "NS", for the log.
std::string_view type_name(RecordType type) { return type == RecordType::mx ? "MX" : "NS"; }

/// One record that names the root: the domain takes no mail (RFC 7505).
bool null_mx(const net::DnsAnswer& mx) { return mx.records.size() == 1 && mx.records.front().data.empty(); }

std::string_view parent_of(std::string_view domain) {
  const auto dot = domain.find('.');
  return dot == std::string_view::npos ? std::string_view() : domain.substr(dot + 1);
}

enum class Servers : std::uint8_t { addresses, mail, names };

/// What one restriction may still look up.
struct ServerSearch {
  std::string domain;
  Servers servers;
  async::Until until;
  std::size_t look_ups = 0, addresses = 0;
  bool exhausted(SteadyTime now, const Name& name) const {
    const bool late = now >= until.deadline;
    if (!late && look_ups < kMaxLookUps && addresses < kMaxAddresses) return false;
    log::warning("server {} limit ({}) exceeded for {} {} -- ignoring the remainder", late ? "time" : "address count",
                 late ? kPatience.count() : static_cast<std::chrono::seconds::rep>(kMaxAddresses), name.kind,
                 name.value);
    return true;
  }
  RecordType type() const { return servers == Servers::names ? RecordType::ns : RecordType::mx; }
};

[[gnu::noinline]] async::Task<std::vector<std::string>> servers_of(Evaluation& e, ServerSearch& search) {
  std::vector<std::string> hosts;
  std::string domain = search.domain;
  if (search.servers == Servers::addresses) {
    hosts.push_back(std::move(domain));
    co_return hosts;
  }
  const auto missing = [](const net::DnsAnswer& said) {
    return said.outcome == DnsOutcome::no_data || said.outcome == DnsOutcome::no_domain;
  };
  net::DnsAnswer said = co_await e.tools.names.records(domain, search.type(), search.until);
  if (search.servers == Servers::mail && null_mx(said)) co_return hosts;
  if (search.servers == Servers::mail && missing(said)) {  // a name without MX records is its own server
    hosts.push_back(std::move(domain));
    co_return hosts;
  }
  while (missing(said) && ++search.look_ups < kMaxLookUps) {
    domain = std::string(parent_of(domain));
    if (domain.empty()) break;
    said = co_await e.tools.names.records(domain, search.type(), search.until);
  }
  if (said.outcome != DnsOutcome::found)
    log::warning("Unable to look up {} host for {}: {}", type_name(search.type()), search.domain, said.text);
  for (auto& record : said.records) hosts.push_back(std::move(record.data));
  co_return hosts;
}

/// nullopt: the tables have nothing about this one.
[[gnu::noinline]] async::Task<std::optional<Answer>> one_server_access(Evaluation& e, const Restriction& r,
                                                                       std::string host, ServerSearch& search,
                                                                       Name name) {
  std::vector<std::string> addresses;
  if (parse_ip(host)) {
    addresses.push_back(host);
  } else {
    if (search.servers != Servers::addresses) {
      const auto by_name = co_await e.tools.tables.ask([maps = r.maps, host, parents = e.policy.parent_domains] {
        return map::find_access_name(maps, host, parents);
      });
      if (!by_name || *by_name) co_return co_await act_on(e, by_name, r, name);
    }
    ++search.look_ups;
    HostAddresses found = co_await e.tools.names.addresses(host, e.policy.families, search.until);
    if (found.state != NameState::ok && search.servers != Servers::addresses)
      log::warning("Unable to look up {} host {} for {} {}: {}", type_name(search.type()), host, name.kind, name.value,
                   found.why);
    addresses = std::move(found.addresses);
  }
  addresses.resize(std::min(addresses.size(), kMaxAddresses - search.addresses));
  search.addresses += addresses.size();
  const auto by_address = co_await e.tools.tables.ask([maps = r.maps, addresses]() -> map::AddressValue {
    for (const auto& address : addresses) {
      auto hit = map::find_access_network(maps, address);
      if (!hit || *hit) return hit;
    }
    return std::nullopt;
  });
  if (by_address && !*by_address) co_return std::nullopt;
  co_return co_await act_on(e, by_address, r, name);
}

/// Looks up the servers of a host name or an address in r's tables, by name and by address.
[[gnu::noinline]] async::Task<Answer> server_access(Evaluation& e, const Restriction& r, std::string of,
                                                    Servers servers, Name name) {
  if (of.empty() || iequals(of, "unknown")) co_return Answer::dunno;
  ServerSearch search{.domain = std::string(host_of(of)),
                      .servers = servers,
                      .until = {.deadline = e.tools.loop.now() + kPatience, .cancel = nullptr}};
  std::vector<std::string> hosts;
  if (search.domain.starts_with('[')) {  // an address literal is its own server for mail
    const auto address = mail::literal_address(search.domain);
    if (!address || servers == Servers::names) co_return Answer::dunno;
    hosts = {*address};
  } else {
    hosts = co_await servers_of(e, search);
  }
  for (auto& host : hosts) {
    if (search.exhausted(e.tools.loop.now(), name)) break;
    const auto answer = co_await one_server_access(e, r, std::move(host), search, name);
    if (answer) co_return never_permit(e, *answer, r, of);  // the first entry decides
  }
  co_return Answer::dunno;
}

async::Task<Answer> client_servers(Evaluation& e, const Restriction& r, Servers servers) {
  return server_access(e, r, e.subject.client->peer.name, servers, e.client_name());
}

async::Task<Answer> reverse_client_servers(Evaluation& e, const Restriction& r, Servers servers) {
  const std::string& name = e.subject.client->peer.reverse_name;
  return server_access(e, r, name, servers, Name{name, "Unverified Client host"});
}

async::Task<Answer> helo_servers(Evaluation& e, const Restriction& r, Servers servers) {
  return server_access(e, r, e.subject.client->helo, servers, e.helo_label());
}

async::Task<Answer> sender_servers(Evaluation& e, const Restriction& r, Servers servers) {
  return server_access(e, r, e.subject.sender.value_or(""), servers, e.sender_label());
}

async::Task<Answer> recipient_servers(Evaluation& e, const Restriction& r, Servers servers) {
  return server_access(e, r, e.subject.recipient.value_or(""), servers, e.recipient_label());
}

/// Whether this host is one of these.
[[gnu::noinline]] async::Task<bool> is_one_of(Evaluation& e, std::vector<std::string> hosts, async::Until until) {
  for (const auto& host : hosts) {
    const auto cls = co_await class_of(e, host);
    if (cls && *cls == resolve::AddressClass::local) co_return true;
  }
  const auto& own = e.policy.resolve->options().own_addresses;
  for (const auto& host : hosts) {
    if (e.tools.loop.now() >= until.deadline) break;
    const HostAddresses found = co_await e.tools.names.addresses(host, e.policy.families, until);
    if (found.state != NameState::ok)
      e.defer_if_refused("4.4.4", e.recipient_label(),
                         fmt::format("Unable to look up mail exchanger host {}: {}", host, found.why));
    for (const auto& address : found.addresses)
      if (std::ranges::any_of(own, [ip = parse_ip(address)](const auto& mine) { return parse_ip(mine) == ip; }))
        co_return true;
  }
  co_return false;
}

[[gnu::noinline]] async::Task<bool> all_in_backup_networks(Evaluation& e, std::vector<std::string> hosts,
                                                           async::Until until) {
  for (const auto& host : hosts) {
    const HostAddresses found = co_await e.tools.names.addresses(host, e.policy.families, until);
    if (found.state != NameState::ok) {
      e.defer_if_refused("4.4.4", e.recipient_label(),
                         fmt::format("Unable to look up host {} as mail exchanger: {}", host, found.why));
      co_return false;
    }
    const Result<bool> inside = co_await e.tools.tables.ask([&e, &host, &found]() -> Result<bool> {
      for (const auto& address : found.addresses) {
        auto matches = e.policy.mx_backup_networks.matches_host(host, address);
        if (!matches || !*matches) return matches;
      }
      return true;
    });
    if (!inside) {
      log::warning("permit_mx_backup_networks: {}", inside.error().message());
      e.defer_if_refused("4.4.4", e.recipient_label(), fmt::format("Unable to verify host {} as mail exchanger", host));
    }
    if (!inside.value_or(false)) co_return false;
  }
  co_return true;
}

[[gnu::noinline]] async::Task<Answer> backup_mx_for(Evaluation& e, std::string domain) {
  const async::Until until{.deadline = e.tools.loop.now() + kPatience, .cancel = nullptr};
  const net::DnsAnswer mx = co_await e.tools.names.records(std::move(domain), RecordType::mx, until);
  if (mx.outcome == DnsOutcome::temporary)
    co_return e.defer_if_refused("4.4.4", e.recipient_label(),
                                 "Unable to look up mail exchanger information: " + mx.text);
  if (mx.outcome != DnsOutcome::found) co_return Answer::dunno;
  const auto first = std::ranges::min(mx.records, {}, &net::DnsRecord::preference).preference;
  std::vector<std::string> primary, backup;
  for (const auto& record : mx.records)
    if (primary.size() + backup.size() < kMaxLookUps)
      (record.preference == first ? primary : backup).push_back(record.data);
  if (backup.empty() || co_await is_one_of(e, primary, until) || !co_await is_one_of(e, backup, until))
    co_return Answer::dunno;
  if (!e.policy.mx_backup_networks.empty() && !co_await all_in_backup_networks(e, primary, until))
    co_return Answer::dunno;
  co_return Answer::permit;
}

}  // namespace

// One row for each restriction: the servers of which name, and of which kind.

async::Task<Answer> check_client_a_access(Evaluation& e, const Restriction& r, const Name&) {
  return client_servers(e, r, Servers::addresses);
}

async::Task<Answer> check_client_mx_access(Evaluation& e, const Restriction& r, const Name&) {
  return client_servers(e, r, Servers::mail);
}

async::Task<Answer> check_client_ns_access(Evaluation& e, const Restriction& r, const Name&) {
  return client_servers(e, r, Servers::names);
}

async::Task<Answer> check_reverse_client_hostname_a_access(Evaluation& e, const Restriction& r, const Name&) {
  return reverse_client_servers(e, r, Servers::addresses);
}

async::Task<Answer> check_reverse_client_hostname_mx_access(Evaluation& e, const Restriction& r, const Name&) {
  return reverse_client_servers(e, r, Servers::mail);
}

async::Task<Answer> check_reverse_client_hostname_ns_access(Evaluation& e, const Restriction& r, const Name&) {
  return reverse_client_servers(e, r, Servers::names);
}

async::Task<Answer> check_helo_a_access(Evaluation& e, const Restriction& r, const Name&) {
  return helo_servers(e, r, Servers::addresses);
}

async::Task<Answer> check_helo_mx_access(Evaluation& e, const Restriction& r, const Name&) {
  return helo_servers(e, r, Servers::mail);
}

async::Task<Answer> check_helo_ns_access(Evaluation& e, const Restriction& r, const Name&) {
  return helo_servers(e, r, Servers::names);
}

async::Task<Answer> check_sender_a_access(Evaluation& e, const Restriction& r, const Name&) {
  return sender_servers(e, r, Servers::addresses);
}

async::Task<Answer> check_sender_mx_access(Evaluation& e, const Restriction& r, const Name&) {
  return sender_servers(e, r, Servers::mail);
}

async::Task<Answer> check_sender_ns_access(Evaluation& e, const Restriction& r, const Name&) {
  return sender_servers(e, r, Servers::names);
}

async::Task<Answer> check_recipient_a_access(Evaluation& e, const Restriction& r, const Name&) {
  return recipient_servers(e, r, Servers::addresses);
}

async::Task<Answer> check_recipient_mx_access(Evaluation& e, const Restriction& r, const Name&) {
  return recipient_servers(e, r, Servers::mail);
}

async::Task<Answer> check_recipient_ns_access(Evaluation& e, const Restriction& r, const Name&) {
  return recipient_servers(e, r, Servers::names);
}

// permit_mx_backup.

async::Task<Answer> permit_mx_backup(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  const auto ours = co_await authorized_destination(e);
  if (!ours) co_return e.table_problem(*e.subject.recipient);
  if (*ours) co_return Answer::permit;
  const std::string address = e.policy.resolve->rewrite(*e.subject.recipient);
  const auto domain = mail::domain_part(address);
  if (routed_elsewhere(e, address) || domain.starts_with('[')) co_return Answer::dunno;
  co_return co_await backup_mx_for(e, std::string(domain));
}

}  // namespace pen::smtpd::restrictions
