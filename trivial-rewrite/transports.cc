#include "trivial-rewrite/transports.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/delimiters.h"
#include "lib/net/tls/protocols.h"
#include "lib/receive/resolve/dns_filter.h"
#include "lib/receive/resolve/name_servers.h"
#include "trivial-rewrite/nexthop.h"

namespace pen::rewrite {
namespace {

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::any_of(words, [&](const std::string& w) { return iequals(w, word); });
}
net::HostLookup lookup_order(const std::vector<std::string>& words) {
  const bool dns = has(words, "dns"), native = has(words, "native");
  if (dns && native) {
    return iequals(words.front(), "native") ? net::HostLookup::native_then_dns : net::HostLookup::dns_then_native;
  }
  return native ? net::HostLookup::native : net::HostLookup::dns;
}

/// The ports on which master listens for SMTP.
std::set<unsigned short> smtp_ports(const config::Config& config) {
  std::set<unsigned short> ports = {25};
  for (const auto& service : config.master()) {
    if (service.type != config::ServiceType::inet || service.command != "smtpd") continue;
    const auto colon = service.name.rfind(':');
    if (const auto port = parse_port(colon == std::string::npos ? service.name : service.name.substr(colon + 1))) {
      ports.insert(*port);
    }
  }
  return ports;
}

Result<HostOptions> host_options(const config::Settings& s, bool lmtp) {
  const config::ClientSettings& client = s.client(lmtp);
  HostOptions o;
  o.lmtp = lmtp;
  const std::string& port = client.tcp_port;
  const auto number = parse_port(port);
  if (!number) {
    return fail(resolve::ResolveError::bad_setting,
                std::string(lmtp ? "lmtp" : "smtp") + "_tcp_port: no such port \"" + printable(port, 50) + "\"");
  }
  o.default_port = *number;
  o.default_service = to_lower(port);
  o.address_limit = static_cast<std::size_t>(client.mx_address_limit);
  switch (client.address_preference) {
    case config::AddressPreference::any:
      o.preference = Family::any;
      break;
    case config::AddressPreference::ipv4:
      o.preference = Family::ipv4;
      break;
    case config::AddressPreference::ipv6:
      o.preference = Family::ipv6;
      break;
  }
  const bool all = has(s.inet_protocols, "all");
  o.ipv4 = all || has(s.inet_protocols, "ipv4");
  o.ipv6 = all || has(s.inet_protocols, "ipv6");
  o.randomize = client.randomize_addresses;
  o.balance = client.balance_inet_protocols;
  o.lookup = lookup_order(client.host_lookup);
  const config::DnsSupport support = client.dns_support_level;
  o.dns_disabled =
      support == config::DnsSupport::unset ? s.disable_dns_lookups : support == config::DnsSupport::disabled;
  o.dnssec = support == config::DnsSupport::dnssec;
  o.defer_if_no_mx_address = s.smtp_defer_if_no_mx_address_found;
  o.ignore_mx_error = s.ignore_mx_lookup_error;
  o.fallback_relay = join(client.fallback_relay);
  if (!lmtp)
    for (const auto& service : s.use_srv_lookup) o.srv_services.push_back(to_lower(service));
  o.srv_fallback = s.allow_srv_lookup_fallback;
  o.ignore_srv_error = s.ignore_srv_lookup_error;
  o.cname_names_host = client.cname_overrides_servername;
  // The words are case-sensitive, as in Postfix.
  for (const auto& word : client.dns_resolver_options) {
    o.defnames = o.defnames || word == "res_defnames";
    o.dnsrch = o.dnsrch || word == "res_dnsrch";
    if (word != "res_defnames" && word != "res_dnsrch")
      return fail(resolve::ResolveError::bad_setting,
                  std::string(lmtp ? "lmtp" : "smtp") + "_dns_resolver_options: unknown word " + printable(word, 50));
  }
  if (o.defnames || o.dnsrch) o.search = resolve::search_domains(resolve::read_resolv_conf());
  const char* filter_name = lmtp ? "lmtp_dns_reply_filter" : "smtp_dns_reply_filter";
  PEN_TRY_ASSIGN(auto filter, resolve::DnsFilter::open(filter_name, client.dns_reply_filter,
                                                       {.default_type = s.default_database_type}));
  if (!filter.empty()) o.filter = std::make_shared<const resolve::DnsFilter>(std::move(filter));
  return o;
}

TlsOptions tls_options(const config::Config& config, bool lmtp) {
  const config::Settings& s = config.settings();
  const auto yes = [&](const char* setting) { return iequals(config.text(setting).value_or(std::string()), "yes"); };
  const config::ClientSettings& client = s.client(lmtp);
  TlsOptions o;
  o.program = lmtp ? "lmtp" : "smtp";
  o.security_level = client.tls_security_level;
  o.use_tls = yes(lmtp ? "lmtp_use_tls" : "smtp_use_tls");
  o.enforce_tls = yes(lmtp ? "lmtp_enforce_tls" : "smtp_enforce_tls");
  const auto peername = config.text(lmtp ? "lmtp_tls_enforce_peername" : "smtp_tls_enforce_peername");
  o.enforce_peername = !iequals(peername.value_or("yes"), "no");
  o.policy_maps = join(client.tls_policy_maps);
  o.per_site = config.text(lmtp ? "lmtp_tls_per_site" : "smtp_tls_per_site").value_or(std::string());
  o.verify_match = client.tls_verify_cert_match;
  o.secure_match = client.tls_secure_cert_match;
  o.fingerprint_match = client.tls_fingerprint_cert_match;
  o.servername = client.tls_servername;
  o.wrapped = client.tls_wrappermode;
  o.dnssec = client.dns_support_level == config::DnsSupport::dnssec;
  // The setting is smtp's alone, in Postfix too.
  o.insecure_mx = lmtp ? "may" : s.smtp_tls_dane_insecure_mx_policy;
  o.force_tlsa = client.tls_force_insecure_host_tlsa_lookup;
  o.sts_patterns = client.tls_enforce_sts_mx_patterns;
  o.maps.default_type = s.default_database_type;
  return o;
}

StsOptions sts_options(const config::Settings& s) {
  StsOptions o;
  o.enable = s.smtp_mta_sts_enable;
  o.ca_file = s.smtp_mta_sts_CAfile;
  // smtp reports invalid words itself, and ignores them.
  const auto permitted = tls::Protocols::parse(s.smtp.tls_mandatory_protocols);
  constexpr std::uint16_t kTls10 = 0x0301, kTls11 = 0x0302;
  if (permitted && (permitted->permits(kTls10) || permitted->permits(kTls11))) o.protocols = ">=TLSv1.2";
  return o;
}

Result<LoginKeys> login_keys(const config::Settings& s, bool lmtp) {
  const config::ClientSettings& client = s.client(lmtp);
  LoginKeys keys;
  if (!client.sasl_auth_enable) return keys;
  const auto& tables = client.sasl_password_maps;
  const char* const name = lmtp ? "lmtp_sasl_password_maps" : "smtp_sasl_password_maps";
  auto maps = map::MapList::open(join(tables), {.default_type = s.default_database_type, .setting = name});
  if (!maps) return fail(std::move(maps).error().within(name));
  keys.maps = *std::move(maps);
  keys.sender_dependent = client.sender_dependent_authentication;
  keys.delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
  return keys;
}

}  // namespace

Result<std::map<std::string, Transport>> read_transports(const config::Config& config,
                                                         const std::vector<std::string>& own_addresses) {
  std::map<std::string, Transport> transports;
  const auto ports = smtp_ports(config);
  const auto& held = config.settings().defer_transports;
  for (const auto& service : config.master()) {
    if (service.type != config::ServiceType::unix_stream) continue;
    Transport t;
    t.deferred = std::ranges::find(held, service.name) != held.end();
    if (service.command == "smtp" || service.command == "lmtp") {
      const bool lmtp = service.command == "lmtp";
      t.program = lmtp ? Transport::Program::lmtp : Transport::Program::smtp;
      const config::Config own = config.with(service);
      auto hosts = host_options(own.settings(), lmtp);
      if (!hosts) return fail(std::move(hosts).error().within(service.label()));
      t.hosts = *std::move(hosts);
      if (const auto best = resolve::parse_transport(own.settings().best_mx_transport);
          !lmtp && !best.transport.empty())
        t.best_mx = best;
      auto tls = TlsPolicies::open(tls_options(own, lmtp));
      if (!tls) return fail(std::move(tls).error().within(service.label()));
      t.tls = *std::move(tls);
      if (!lmtp) t.sts = sts_options(own.settings());
      t.reports_tls = !lmtp && own.settings().smtp_tlsrpt_enable;
      const config::Settings& settings = own.settings();
      if (settings.requiretls_enable) {
        const char* name = lmtp ? "lmtp_requiretls_policy" : "smtp_requiretls_policy";
        auto require = RequireTlsPolicies::open(join(settings.client(lmtp).requiretls_policy), settings.mydomain,
                                                {.default_type = settings.default_database_type, .setting = name});
        if (!require) return fail(std::move(require).error().within(std::string(name) + ", " + service.label()));
        t.require_tls = *std::move(require);
      } else {
        t.require_tls = RequireTlsPolicies::opportunistic();
      }
      auto logins = login_keys(own.settings(), lmtp);
      if (!logins) return fail(std::move(logins).error().within(service.label()));
      t.logins = *std::move(logins);
      t.hosts.own_addresses = {own_addresses.begin(), own_addresses.end()};
      t.hosts.own_ports = ports;
      t.hosts.whole_loopback = std::ranges::count(own.settings().inet_interfaces, std::string("all")) > 0;
    }
    transports.insert_or_assign(service.name, std::move(t));
  }
  return transports;
}

}  // namespace pen::rewrite
