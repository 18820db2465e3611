/// Restrictions on the hosts behind a name: check_*_a_access, check_*_mx_access, check_*_ns_access, permit_mx_backup.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "smtpd/checks.h"

namespace pen::smtpd {
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

}  // namespace

/// What one restriction may still look up.
struct Checks::ServerSearch {
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

// One row for each restriction: the servers of which name, and of which kind.

async::Task<Checks::Answer> Checks::check_client_a_access(const Restriction& r, const Name&) {
  return client_servers(r, Servers::addresses);
}
async::Task<Checks::Answer> Checks::check_client_mx_access(const Restriction& r, const Name&) {
  return client_servers(r, Servers::mail);
}
async::Task<Checks::Answer> Checks::check_client_ns_access(const Restriction& r, const Name&) {
  return client_servers(r, Servers::names);
}
async::Task<Checks::Answer> Checks::check_reverse_client_hostname_a_access(const Restriction& r, const Name&) {
  return reverse_client_servers(r, Servers::addresses);
}
async::Task<Checks::Answer> Checks::check_reverse_client_hostname_mx_access(const Restriction& r, const Name&) {
  return reverse_client_servers(r, Servers::mail);
}
async::Task<Checks::Answer> Checks::check_reverse_client_hostname_ns_access(const Restriction& r, const Name&) {
  return reverse_client_servers(r, Servers::names);
}
async::Task<Checks::Answer> Checks::check_helo_a_access(const Restriction& r, const Name&) {
  return helo_servers(r, Servers::addresses);
}
async::Task<Checks::Answer> Checks::check_helo_mx_access(const Restriction& r, const Name&) {
  return helo_servers(r, Servers::mail);
}
async::Task<Checks::Answer> Checks::check_helo_ns_access(const Restriction& r, const Name&) {
  return helo_servers(r, Servers::names);
}
async::Task<Checks::Answer> Checks::check_sender_a_access(const Restriction& r, const Name&) {
  return sender_servers(r, Servers::addresses);
}
async::Task<Checks::Answer> Checks::check_sender_mx_access(const Restriction& r, const Name&) {
  return sender_servers(r, Servers::mail);
}
async::Task<Checks::Answer> Checks::check_sender_ns_access(const Restriction& r, const Name&) {
  return sender_servers(r, Servers::names);
}
async::Task<Checks::Answer> Checks::check_recipient_a_access(const Restriction& r, const Name&) {
  return recipient_servers(r, Servers::addresses);
}
async::Task<Checks::Answer> Checks::check_recipient_mx_access(const Restriction& r, const Name&) {
  return recipient_servers(r, Servers::mail);
}
async::Task<Checks::Answer> Checks::check_recipient_ns_access(const Restriction& r, const Name&) {
  return recipient_servers(r, Servers::names);
}

async::Task<Checks::Answer> Checks::client_servers(const Restriction& r, Servers servers) {
  return server_access(r, subject_.client->peer.name, servers, client_name());
}
async::Task<Checks::Answer> Checks::reverse_client_servers(const Restriction& r, Servers servers) {
  const std::string& name = subject_.client->peer.reverse_name;
  return server_access(r, name, servers, Name{name, "Unverified Client host"});
}
async::Task<Checks::Answer> Checks::helo_servers(const Restriction& r, Servers servers) {
  return server_access(r, subject_.client->helo, servers, helo_label());
}
async::Task<Checks::Answer> Checks::sender_servers(const Restriction& r, Servers servers) {
  return server_access(r, subject_.sender.value_or(""), servers, sender_label());
}
async::Task<Checks::Answer> Checks::recipient_servers(const Restriction& r, Servers servers) {
  return server_access(r, subject_.recipient.value_or(""), servers, recipient_label());
}

async::Task<Checks::Answer> Checks::server_access(const Restriction& r, std::string of, Servers servers, Name name) {
  if (of.empty() || iequals(of, "unknown")) co_return Answer::dunno;
  ServerSearch search{.domain = std::string(host_of(of)),
                      .servers = servers,
                      .until = {.deadline = tools_.loop.now() + kPatience, .cancel = nullptr}};
  std::vector<std::string> hosts;
  if (search.domain.starts_with('[')) {  // an address literal is its own server for mail
    const auto address = mail::literal_address(search.domain);
    if (!address || servers == Servers::names) co_return Answer::dunno;
    hosts = {*address};
  } else {
    hosts = co_await servers_of(search);
  }
  for (auto& host : hosts) {
    if (search.exhausted(tools_.loop.now(), name)) break;
    const auto answer = co_await one_server_access(r, std::move(host), search, name);
    if (answer) co_return never_permit(*answer, r, of);  // the first entry decides
  }
  co_return Answer::dunno;
}

async::Task<std::vector<std::string>> Checks::servers_of(ServerSearch& search) {
  std::vector<std::string> hosts;
  std::string domain = search.domain;
  if (search.servers == Servers::addresses) {
    hosts.push_back(std::move(domain));
    co_return hosts;
  }
  const auto missing = [](const net::DnsAnswer& said) {
    return said.outcome == DnsOutcome::no_data || said.outcome == DnsOutcome::no_domain;
  };
  net::DnsAnswer said = co_await tools_.names.records(domain, search.type(), search.until);
  if (search.servers == Servers::mail && null_mx(said)) co_return hosts;
  if (search.servers == Servers::mail && missing(said)) {  // a name without MX records is its own server
    hosts.push_back(std::move(domain));
    co_return hosts;
  }
  while (missing(said) && ++search.look_ups < kMaxLookUps) {
    domain = std::string(parent_of(domain));
    if (domain.empty()) break;
    said = co_await tools_.names.records(domain, search.type(), search.until);
  }
  if (said.outcome != DnsOutcome::found)
    log::warning("Unable to look up {} host for {}: {}", type_name(search.type()), search.domain, said.text);
  for (auto& record : said.records) hosts.push_back(std::move(record.data));
  co_return hosts;
}

async::Task<std::optional<Checks::Answer>> Checks::one_server_access(const Restriction& r, std::string host,
                                                                     ServerSearch& search, Name name) {
  std::vector<std::string> addresses;
  if (parse_ip(host)) {
    addresses.push_back(host);
  } else {
    if (search.servers != Servers::addresses) {
      const auto by_name = co_await tools_.tables.ask([maps = r.maps, host, parents = policy_.parent_domains] {
        return map::find_access_name(maps, host, parents);
      });
      if (!by_name || *by_name) co_return co_await act_on(by_name, r, name);
    }
    ++search.look_ups;
    HostAddresses found = co_await tools_.names.addresses(host, policy_.families, search.until);
    if (found.state != NameState::ok && search.servers != Servers::addresses)
      log::warning("Unable to look up {} host {} for {} {}: {}", type_name(search.type()), host, name.kind, name.value,
                   found.why);
    addresses = std::move(found.addresses);
  }
  addresses.resize(std::min(addresses.size(), kMaxAddresses - search.addresses));
  search.addresses += addresses.size();
  const auto by_address = co_await tools_.tables.ask([maps = r.maps, addresses]() -> map::AddressValue {
    for (const auto& address : addresses) {
      auto hit = map::find_access_network(maps, address);
      if (!hit || *hit) return hit;
    }
    return std::nullopt;
  });
  if (by_address && !*by_address) co_return std::nullopt;
  co_return co_await act_on(by_address, r, name);
}

Checks::Answer Checks::never_permit(Answer answer, const Restriction& r, std::string_view target) {
  if (answer != Answer::permit || effects_.discard) return answer;
  log::warning("restriction {} returns OK for {}", r.name, target);
  log::warning("this is not allowed for security reasons");
  return server_error("use DUNNO instead of OK if you want to make an exception");
}

// permit_mx_backup.

async::Task<Checks::Answer> Checks::permit_mx_backup(const Restriction&, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  const auto ours = co_await authorized_destination();
  if (!ours) co_return table_problem(*subject_.recipient);
  if (*ours) co_return Answer::permit;
  const std::string address = policy_.resolve->rewrite(*subject_.recipient);
  const auto domain = mail::domain_part(address);
  if (routed_elsewhere(address) || domain.starts_with('[')) co_return Answer::dunno;
  co_return co_await backup_mx_for(std::string(domain));
}

async::Task<Checks::Answer> Checks::backup_mx_for(std::string domain) {
  const async::Until until{.deadline = tools_.loop.now() + kPatience, .cancel = nullptr};
  const net::DnsAnswer mx = co_await tools_.names.records(std::move(domain), RecordType::mx, until);
  if (mx.outcome == DnsOutcome::temporary)
    co_return defer_if_refused("4.4.4", recipient_label(), "Unable to look up mail exchanger information: " + mx.text);
  if (mx.outcome != DnsOutcome::found) co_return Answer::dunno;
  const auto first = std::ranges::min(mx.records, {}, &net::DnsRecord::preference).preference;
  std::vector<std::string> primary, backup;
  for (const auto& record : mx.records)
    if (primary.size() + backup.size() < kMaxLookUps)
      (record.preference == first ? primary : backup).push_back(record.data);
  if (backup.empty() || co_await is_one_of(primary, until) || !co_await is_one_of(backup, until))
    co_return Answer::dunno;
  if (!policy_.mx_backup_networks.empty() && !co_await all_in_backup_networks(primary, until)) co_return Answer::dunno;
  co_return Answer::permit;
}

async::Task<bool> Checks::is_one_of(std::vector<std::string> hosts, async::Until until) {
  for (const auto& host : hosts) {
    const auto cls = co_await class_of(host);
    if (cls && *cls == resolve::AddressClass::local) co_return true;
  }
  const auto& own = policy_.resolve->options().own_addresses;
  for (const auto& host : hosts) {
    if (tools_.loop.now() >= until.deadline) break;
    const HostAddresses found = co_await tools_.names.addresses(host, policy_.families, until);
    if (found.state != NameState::ok)
      defer_if_refused("4.4.4", recipient_label(),
                       fmt::format("Unable to look up mail exchanger host {}: {}", host, found.why));
    for (const auto& address : found.addresses)
      if (std::ranges::any_of(own, [ip = parse_ip(address)](const auto& mine) { return parse_ip(mine) == ip; }))
        co_return true;
  }
  co_return false;
}

async::Task<bool> Checks::all_in_backup_networks(std::vector<std::string> hosts, async::Until until) {
  for (const auto& host : hosts) {
    const HostAddresses found = co_await tools_.names.addresses(host, policy_.families, until);
    if (found.state != NameState::ok) {
      defer_if_refused("4.4.4", recipient_label(),
                       fmt::format("Unable to look up host {} as mail exchanger: {}", host, found.why));
      co_return false;
    }
    const Result<bool> inside = co_await tools_.tables.ask([this, &host, &found]() -> Result<bool> {
      for (const auto& address : found.addresses) {
        auto matches = policy_.mx_backup_networks.matches_host(host, address);
        if (!matches || !*matches) return matches;
      }
      return true;
    });
    if (!inside) {
      log::warning("permit_mx_backup_networks: {}", inside.error().message());
      defer_if_refused("4.4.4", recipient_label(), fmt::format("Unable to verify host {} as mail exchanger", host));
    }
    if (!inside.value_or(false)) co_return false;
  }
  co_return true;
}

}  // namespace pen::smtpd
