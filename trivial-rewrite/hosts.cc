#include "trivial-rewrite/hosts.h"

#include <algorithm>
#include <climits>
#include <tuple>

#include "lib/base/async/sync.h"
#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::rewrite {

using async::Task;
using ipc::Destination;
using ipc::route::Level;
using net::DnsAnswer;
using net::DnsOutcome;
using net::RecordType;

/// The answers of concurrent look-ups.
struct Gathering {
  explicit Gathering(async::Loop& loop) : all_there(loop) {}
  async::Event all_there;
  std::size_t missing = 0;
  std::vector<HostFinder::Addresses> results;
};

namespace {

// At most so many MX hosts are looked up: a hostile set of records must not make us ask thousands of questions.
constexpr std::size_t kMaxHosts = 50;

/// True: no host can be reached at this address from here, whatever DNS says. (A link-local IPv6 address means
/// nothing without its link.)
bool names_no_host(const std::string& address) {
  static const auto networks = [] {
    std::vector<Network> all;
    for (const char* text : {"0.0.0.0", "224.0.0.0/4", "255.255.255.255", "::", "fe80::/10", "ff00::/8"})
      all.push_back(parse_network(text).value());
    return all;
  }();
  const auto ip = parse_ip(address);
  return ip && std::ranges::any_of(networks, [&](const auto& n) { return n.contains(*ip); });
}

bool is_ipv6(const Destination& d) { return d.address.find(':') != std::string::npos; }

mail::DeliveryStatus dns_status(const DnsAnswer& answer, const std::string& name, std::string_view type) {
  const bool temporary = answer.outcome == DnsOutcome::temporary;
  return mail::make_status(temporary ? mail::Action::deferred : mail::Action::failed, temporary ? "4.4.3" : "5.4.4",
                           "Host or domain name not found. Name service error for name=" + printable(name, 255) +
                               " type=" + std::string(type) + ": " + answer.text);
}
bool permanent(const mail::DeliveryStatus& s) { return s.action == mail::Action::failed; }

bool watches_for_loops(const NextHop& hop, const HostOptions& options) {
  if (options.lmtp || !options.own_ports.contains(hop.port)) return false;
  return !hop.explicit_port || hop.port == 25;
}
bool is_own(const std::string& address, const HostOptions& options) { return options.own_addresses.contains(address); }

/// All of 127.0.0.0/8 leads to programs that listen on all addresses: an MX record with such an address means this
/// host.
bool is_loopback(const std::string& address) {
  static const auto four = parse_network("127.0.0.0/8").value();
  static const auto six = parse_network("::1").value();
  const auto ip = parse_ip(address);
  return ip && (four.contains(*ip) || six.contains(*ip));
}

mail::DeliveryStatus loops_back(const NextHop& hop) {
  return mail::make_status(mail::Action::failed, "5.4.6",
                           "mail for " + printable(hop.host, 255) + " loops back to myself");
}

/// The name of a host for the log, passwords and TLS.
const std::string& server_name(const std::string& host, const std::string& canonical, const HostOptions& options) {
  return options.cname_names_host && !canonical.empty() ? canonical : host;
}

Destination destination(const std::string& host, const std::string& address, unsigned short port) {
  Destination d;
  d.host = host;
  d.address = address;
  d.port = port;
  return d;
}

}  // namespace

void limit_addresses(std::vector<Level>& levels, std::size_t limit, bool balance) {
  if (limit == 0) return;
  std::size_t total = 0, six = 0, first_six = 0;
  for (const auto& level : levels) {
    for (const auto& d : level.destinations) {
      if (is_ipv6(d)) {
        ++six;
        if (total < limit) ++first_six;
      }
      ++total;
    }
  }
  if (total <= limit) return;
  // Keep one place for the family that would be left out.
  const bool keep_one_six = balance && limit > 1 && first_six == 0 && six > 0;
  const bool keep_one_four = balance && limit > 1 && first_six == limit && six < total;
  std::size_t plain = limit - (keep_one_six || keep_one_four ? 1 : 0);
  bool kept_other = false;
  for (auto& level : levels) {
    std::erase_if(level.destinations, [&](const Destination& d) {
      if (plain > 0) {
        --plain;
        return false;
      }
      if (!kept_other && ((keep_one_six && is_ipv6(d)) || (keep_one_four && !is_ipv6(d)))) {
        kept_other = true;
        return false;
      }
      return true;
    });
  }
  std::erase_if(levels, [](const Level& level) { return level.destinations.empty(); });
}

Task<DnsAnswer> HostFinder::look_up_one(std::string name, RecordType type, const HostOptions& options) {
  DnsAnswer answer;
  if (type == RecordType::a || type == RecordType::aaaa) {
    const auto how = options.dns_disabled ? net::HostLookup::native : options.lookup;
    answer = co_await dns_.lookup_host(std::move(name), type, how);
  } else {
    answer = co_await dns_.lookup(std::move(name), type);
  }
  if (options.filter) co_await options.filter->apply(tables_, answer);
  co_return answer;
}

Task<DnsAnswer> HostFinder::look_up(std::string name, RecordType type, const HostOptions& options) {
  const bool searches = (options.defnames || options.dnsrch) && !options.search.empty();
  if (!searches) co_return co_await look_up_one(std::move(name), type, options);
  // As libc does with these options and ndots = 1: a name with a dot is tried as it is first, one without comes last.
  const bool dotted = name.contains('.');
  std::vector<std::string> names;
  if (dotted) names.push_back(name);
  if (options.dnsrch) {
    for (const auto& domain : options.search) names.push_back(name + "." + domain);
  } else if (!dotted) {
    names.push_back(name + "." + options.search.front());
  }
  if (!dotted) names.push_back(name);
  DnsAnswer first;
  for (std::size_t i = 0; i < names.size(); ++i) {
    DnsAnswer answer = co_await look_up_one(names[i], type, options);
    if (answer.outcome == DnsOutcome::found || answer.outcome == DnsOutcome::temporary) co_return answer;
    // A name that exists says more than one that does not.
    if (i == 0 || (first.outcome == DnsOutcome::no_domain && answer.outcome == DnsOutcome::no_data))
      first = std::move(answer);
  }
  co_return first;
}

Task<HostFinder::Addresses> HostFinder::resolve_host(std::string name, HostOptions options) {
  Addresses out;
  out.status = mail::make_status(mail::Action::failed, "5.4.4", "unable to look up host " + printable(name, 255));
  bool temporary = false;
  out.secure = true;
  for (const bool six : {false, true}) {
    if (six ? !options.ipv6 : !options.ipv4) continue;
    const RecordType type = six ? RecordType::aaaa : RecordType::a;
    const DnsAnswer answer = co_await look_up(name, type, options);
    if (answer.outcome == DnsOutcome::found) {
      out.ttl = std::min(out.ttl, answer.ttl);
      for (const auto& record : answer.records) {
        if (!names_no_host(record.data)) {
          out.addresses.push_back(record.data);
        } else if (!temporary) {  // the owner of the zone may notice the fault
          temporary = true;
          out.status =
              mail::make_status(mail::Action::deferred, "4.4.4",
                                "host " + printable(name, 255) + " has no address but " + printable(record.data));
        }
      }
      out.canonical = answer.name;
      out.secure = out.secure && answer.authenticated;
      continue;
    }
    // A failure of one family may hide addresses; the addresses of the other family are good enough.
    if (temporary) continue;
    temporary = answer.outcome == DnsOutcome::temporary;
    out.status = dns_status(answer, name, six ? "AAAA" : "A");
    if (!temporary) out.ttl = std::min(out.ttl, std::max(answer.ttl, seconds(1)));
    if (answer.outcome == DnsOutcome::no_domain) break;
  }
  out.secure = out.secure && !out.addresses.empty();
  co_return out;
}

Task<void> HostFinder::resolve_into(HostFinder* self, std::string name, HostOptions options,
                                    std::shared_ptr<Gathering> into, std::size_t index) {
  into->results[index] = co_await self->resolve_host(std::move(name), std::move(options));
  if (--into->missing == 0) into->all_there.set();
}

Task<std::vector<HostFinder::Addresses>> HostFinder::resolve_all(std::vector<std::string> names,
                                                                 const HostOptions& options) {
  auto gathering = std::make_shared<Gathering>(loop_);
  gathering->missing = names.size();
  gathering->results.resize(names.size());
  async::Gate gate(loop_);  // dies with its tasks when this function ends
  for (std::size_t i = 0; i < names.size(); ++i) {
    gate.spawn("addresses of " + names[i], resolve_into(this, names[i], options, gathering, i));
  }
  if (!names.empty()) (void)co_await gathering->all_there.wait();
  co_return std::move(gathering->results);
}

void HostFinder::append_level(std::vector<Level>& levels, std::vector<Destination> destinations,
                              const HostOptions& options) {
  if (options.randomize) {
    for (std::size_t i = destinations.size(); i > 1; --i) {
      std::swap(destinations[i - 1], destinations[static_cast<std::size_t>(random_.below(i))]);
    }
  }
  // An address found before, on a better level or by another name, is the same destination.
  std::set<std::string> seen;
  for (const auto& level : levels) {
    for (const auto& d : level.destinations) seen.insert(d.address + " " + std::to_string(d.port));
  }
  std::vector<Destination> preferred, others;
  for (auto& d : destinations) {
    if (!seen.insert(d.address + " " + std::to_string(d.port)).second) continue;
    const bool second = options.preference != Family::any && is_ipv6(d) != (options.preference == Family::ipv6);
    (second ? others : preferred).push_back(std::move(d));
  }
  if (!preferred.empty()) levels.push_back({std::move(preferred)});
  if (!others.empty()) levels.push_back({std::move(others)});
}

Task<Found> HostFinder::by_host(NextHop hop, const HostOptions& options) {
  Found found;
  Addresses addresses;
  if (hop.numeric) {
    const auto ip = parse_ip(hop.host);
    addresses.addresses.push_back(ip ? ip->text() : hop.host);
  } else {
    addresses = co_await resolve_host(hop.host, options);
  }
  found.ttl = addresses.ttl;
  found.status = std::move(addresses.status);
  const std::string& name = server_name(hop.host, addresses.canonical, options);
  if (options.dnssec)
    found.facts[{hop.text, name}] = {addresses.canonical, addresses.secure, false, false, std::string()};
  std::vector<Destination> destinations;
  for (const auto& address : addresses.addresses) {
    if (watches_for_loops(hop, options) && is_own(address, options)) {
      found.status = loops_back(hop);
      found.levels.clear();
      co_return found;
    }
    destinations.push_back(destination(name, address, hop.port));
  }
  append_level(found.levels, std::move(destinations), options);
  co_return found;
}

std::vector<HostFinder::Host> HostFinder::best_hosts(const DnsAnswer& mx, bool randomize) {
  std::vector<Host> hosts;
  for (const auto& record : mx.records)
    if (!record.data.empty()) hosts.push_back({record.preference, 0, record.data});
  // Chance also decides which of many equal hosts stay within the limit.
  for (auto& host : hosts) host.order = randomize ? random_.next() : 0;
  std::ranges::sort(hosts, [](const Host& x, const Host& y) {
    return std::tie(x.preference, x.order, x.name) < std::tie(y.preference, y.order, y.name);
  });
  if (hosts.size() > kMaxHosts) hosts.resize(kMaxHosts);
  return hosts;
}

Task<Found> HostFinder::by_mx(NextHop hop, const HostOptions& options) {
  Found found;
  const DnsAnswer mx = co_await look_up(hop.host, RecordType::mx, options);
  switch (mx.outcome) {
    case DnsOutcome::temporary:
      if (options.ignore_mx_error) co_return co_await by_host(std::move(hop), options);
      found.status = dns_status(mx, hop.host, "MX");
      co_return found;
    case DnsOutcome::no_domain:
      found.status = dns_status(mx, hop.host, "MX");
      found.ttl = std::max(mx.ttl, seconds(1));
      // A name in this host's own files need not be in DNS.
      if (options.lookup != net::HostLookup::dns) co_return co_await by_host(std::move(hop), options);
      co_return found;
    case DnsOutcome::no_data: {
      Found own = co_await by_host(std::move(hop), options);
      for (auto& [key, facts] : own.facts) {
        facts.by_mx = true;
        facts.mx_secure = mx.authenticated;
        facts.mx_canonical = mx.name;
      }
      own.ttl = std::min(own.ttl, std::max(mx.ttl, seconds(1)));
      co_return own;
    }
    case DnsOutcome::found:
      break;
  }
  found.ttl = mx.ttl;
  const std::vector<Host> hosts = best_hosts(mx, options.randomize);
  // RFC 7505: an empty name alone means that the domain takes no mail; beside other names it means nothing.
  if (hosts.empty() && !mx.records.empty()) {
    found.status = mail::make_status(mail::Action::failed, "5.1.10",
                                     "Domain " + printable(hop.host, 255) + " does not accept mail (nullMX)");
    co_return found;
  }
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  const auto resolved = co_await resolve_all(std::move(names), options);
  take_levels(found, hop, hosts, resolved, options);
  for (std::size_t i = 0; options.dnssec && i < hosts.size(); ++i)
    found.facts[{hop.text, server_name(hosts[i].name, resolved[i].canonical, options)}] = {
        resolved[i].canonical, resolved[i].secure, true, mx.authenticated, mx.name};
  co_return found;
}

std::vector<HostFinder::Host> HostFinder::srv_hosts(const DnsAnswer& srv) {
  std::vector<Host> hosts;
  for (const auto& record : srv.records)
    if (!record.data.empty())
      hosts.push_back({record.preference, random_.next(), record.data, record.weight, record.port});
  std::ranges::sort(hosts, [](const Host& x, const Host& y) {
    return std::tie(x.preference, x.order, x.name) < std::tie(y.preference, y.order, y.name);
  });
  if (hosts.size() > kMaxHosts) hosts.resize(kMaxHosts);
  for (std::size_t begin = 0; begin < hosts.size();) {
    std::size_t end = begin;
    while (end < hosts.size() && hosts[end].preference == hosts[begin].preference) ++end;
    // Each place goes to one of the rest, in proportion to its weight; a weight of 0 has a small chance.
    for (; begin < end; ++begin) {
      std::uint64_t total = 0;
      for (std::size_t i = begin; i < end; ++i) total += hosts[i].weight * std::uint64_t{100} + 1;
      std::uint64_t ticket = random_.below(total);
      std::size_t chosen = begin;
      for (; chosen + 1 < end && ticket >= hosts[chosen].weight * std::uint64_t{100} + 1; ++chosen)
        ticket -= hosts[chosen].weight * std::uint64_t{100} + 1;
      std::swap(hosts[begin], hosts[chosen]);
    }
  }
  return hosts;
}

Task<std::optional<Found>> HostFinder::by_srv(NextHop hop, const HostOptions& options) {
  const std::string name = "_" + hop.service + "._tcp." + hop.host;
  const DnsAnswer srv = co_await look_up(name, RecordType::srv, options);
  Found found;
  if (srv.outcome != DnsOutcome::found) {
    const bool error = srv.outcome == DnsOutcome::temporary;
    if (options.srv_fallback || (error && options.ignore_srv_error)) co_return std::nullopt;
    found.status = dns_status(srv, name, "SRV");
    if (!error) found.ttl = std::max(srv.ttl, seconds(1));
    co_return found;
  }
  found.ttl = srv.ttl;
  const std::vector<Host> hosts = srv_hosts(srv);
  if (hosts.empty()) {  // RFC 2782: the target "." says that there is no such service
    found.status = mail::make_status(mail::Action::failed, "5.1.10",
                                     "Service " + printable(name, 255) + " is not available (null SRV)");
    co_return found;
  }
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  const auto resolved = co_await resolve_all(std::move(names), options);
  for (std::size_t i = 0; i < hosts.size();) {
    std::vector<Destination> level;
    const Host& first = hosts[i];
    const auto alike = [&](const Host& h) { return h.preference == first.preference && h.weight == first.weight; };
    for (; i < hosts.size() && alike(hosts[i]); ++i) {
      const Addresses& of = resolved[i];
      found.ttl = std::min(found.ttl, of.ttl);
      if (of.addresses.empty() && (found.status.text.empty() || !permanent(of.status))) found.status = of.status;
      const std::string& shown = server_name(hosts[i].name, of.canonical, options);
      for (const auto& address : of.addresses) {
        if (is_own(address, options) && options.own_ports.contains(hosts[i].port)) {
          found.status = loops_back(hop);
          found.levels.clear();
          co_return found;
        }
        level.push_back(destination(shown, address, hosts[i].port));
      }
      if (options.dnssec) found.facts[{hop.text, shown}] = {of.canonical, of.secure, true, srv.authenticated, srv.name};
    }
    append_level(found.levels, std::move(level), options);
  }
  co_return found;
}

void HostFinder::take_levels(Found& found, const NextHop& hop, const std::vector<Host>& hosts,
                             const std::vector<Addresses>& resolved, const HostOptions& options) {
  unsigned self = UINT_MAX;
  for (std::size_t i = 0; i < hosts.size() && watches_for_loops(hop, options); ++i) {
    for (const auto& address : resolved[i].addresses) {
      if (is_own(address, options) || (options.whole_loopback && is_loopback(address)))
        self = std::min(self, hosts[i].preference);
    }
  }
  bool any_address = false, any_temporary = false;
  for (std::size_t i = 0; i < hosts.size();) {
    std::vector<Destination> destinations;
    const unsigned preference = hosts[i].preference;
    for (; i < hosts.size() && hosts[i].preference == preference; ++i) {
      const auto& [addresses, ttl, why, canonical, secure] = resolved[i];
      found.ttl = std::min(found.ttl, ttl);
      any_address = any_address || !addresses.empty();
      if (addresses.empty() && (!any_temporary || !permanent(why))) {
        found.status = why;
        any_temporary = any_temporary || !permanent(why);
      }
      if (preference >= self) continue;
      const std::string& name = server_name(hosts[i].name, canonical, options);
      for (const auto& address : addresses) destinations.push_back(destination(name, address, hop.port));
    }
    append_level(found.levels, std::move(destinations), options);
  }
  if (!found.levels.empty()) return;
  if (self != UINT_MAX && !any_temporary) {
    found.status = loops_back(hop);
  } else if (!any_address && permanent(found.status) && options.defer_if_no_mx_address) {
    found.status.action = mail::Action::deferred;
    found.status.dsn[0] = '4';
  }
}

Task<Found> HostFinder::find_one(NextHop hop, const HostOptions& options) {
  if (!hop.unix_path.empty()) {
    Found found;
    Destination d;
    d.unix_path = hop.unix_path;
    d.host = hop.unix_path;
    found.levels.push_back({{std::move(d)}});
    co_return found;
  }
  const bool by_service = !hop.service.empty() && !options.dns_disabled &&
                          std::ranges::find(options.srv_services, hop.service) != options.srv_services.end();
  if (by_service)
    if (auto found = co_await by_srv(hop, options)) co_return *std::move(found);
  if (hop.mx && !options.dns_disabled) co_return co_await by_mx(std::move(hop), options);
  co_return co_await by_host(std::move(hop), options);
}

Task<Found> HostFinder::find(std::string nexthop, HostOptions options) {
  Found found;
  found.status = mail::make_status(mail::Action::deferred, "4.3.5", "bad next hop \"" + printable(nexthop, 255) + "\"");
  auto hops = parse_nexthops(nexthop, options.lmtp, options.default_port, options.default_service);
  if (!hops) co_return found;
  std::size_t fallback_from = hops->size();
  if (!trim(options.fallback_relay).empty()) {
    if (auto relays =
            parse_nexthops(options.fallback_relay, options.lmtp, options.default_port, options.default_service)) {
      std::ranges::move(*relays, std::back_inserter(*hops));
    } else {
      found.status.text = "bad next hop \"" + printable(options.fallback_relay, 255) + "\"";
      co_return found;
    }
  }
  bool first = true;
  for (std::size_t i = 0; i < hops->size(); ++i) {
    Found one = co_await find_one((*hops)[i], options);
    found.ttl = std::min(found.ttl, one.ttl);
    const bool failed = one.levels.empty();
    if (failed && (first || (permanent(found.status) && !permanent(one.status)))) found.status = one.status;
    // Another next hop would only make it worse: the mail would come back from there, or the domain wants none.
    if (failed && i < fallback_from && (one.status.dsn == "5.4.6" || one.status.dsn == "5.1.10")) {
      found.status = std::move(one.status);
      fallback_from = hops->size();
      hops->resize(i + 1);
    }
    first = false;
    limit_addresses(one.levels, options.address_limit, options.balance);
    std::ranges::move(one.levels, std::back_inserter(found.levels));
    found.facts.merge(one.facts);
    found.hops.resize(found.levels.size(), (*hops)[i]);
  }
  co_return found;
}

}  // namespace pen::rewrite
