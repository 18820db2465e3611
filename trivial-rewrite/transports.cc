#include "trivial-rewrite/transports.h"

#include <algorithm>

#include "lib/base/text.h"
#include "trivial-rewrite/nexthop.h"

namespace pen::rewrite {
namespace {

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::any_of(words, [&](const std::string& w) { return iequals(w, word); });
}
net::HostLookup lookup_order(const std::vector<std::string>& words) {
  const bool dns = has(words, "dns"), native = has(words, "native");
  if (dns && native) {
    return iequals(words.front(), "native") ? net::HostLookup::native_then_dns
                                            : net::HostLookup::dns_then_native;
  }
  return native ? net::HostLookup::native : net::HostLookup::dns;
}

/// The ports on which master listens for SMTP.
std::set<unsigned short> smtp_ports(const config::Config& config) {
  std::set<unsigned short> ports = {25};
  for (const auto& service : config.master()) {
    if (service.type != config::ServiceType::inet || service.command != "smtpd") continue;
    const auto colon = service.name.rfind(':');
    if (const auto port = parse_port(colon == std::string::npos ? service.name
                                                                : service.name.substr(colon + 1))) {
      ports.insert(*port);
    }
  }
  return ports;
}

Result<HostOptions> host_options(const config::Settings& s, bool lmtp) {
  HostOptions o;
  o.lmtp = lmtp;
  const std::string& port = lmtp ? s.lmtp_tcp_port : s.smtp_tcp_port;
  const auto number = parse_port(port);
  if (!number) {
    return fail(resolve::ResolveError::bad_setting, std::string(lmtp ? "lmtp" : "smtp") +
                                                        "_tcp_port: no such port \"" +
                                                        printable(port, 50) + "\"");
  }
  o.default_port = *number;
  o.address_limit = static_cast<std::size_t>(s.smtp_mx_address_limit);
  switch (s.smtp_address_preference) {
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
  o.randomize = s.smtp_randomize_addresses;
  o.balance = s.smtp_balance_inet_protocols;
  o.lookup = lookup_order(s.smtp_host_lookup);
  o.dns_disabled = s.disable_dns_lookups;
  o.defer_if_no_mx_address = s.smtp_defer_if_no_mx_address_found;
  o.ignore_mx_error = s.ignore_mx_lookup_error;
  o.fallback_relay = join(s.smtp_fallback_relay);
  return o;
}

struct LevelName {
  std::string_view name;
  ipc::TlsLevel level;
};
constexpr LevelName kLevels[] = {
    {"none", ipc::TlsLevel::none},       {"may", ipc::TlsLevel::may},
    {"encrypt", ipc::TlsLevel::encrypt}, {"fingerprint", ipc::TlsLevel::fingerprint},
    {"verify", ipc::TlsLevel::verify},   {"secure", ipc::TlsLevel::secure},
    {"dane", ipc::TlsLevel::dane},       {"dane-only", ipc::TlsLevel::dane_only},
};

/// <program>_tls_security_level, else what the settings before it say.
Result<ipc::TlsLevel> tls_level(const config::Config& config, const std::string& program) {
  const auto said = [&](const char* setting) {
    return config.text(program + setting).value_or(std::string());
  };
  const std::string word = said("_tls_security_level");
  if (word.empty()) {
    if (iequals(said("_enforce_tls"), "yes")) return ipc::TlsLevel::encrypt;
    return iequals(said("_use_tls"), "yes") ? ipc::TlsLevel::may : ipc::TlsLevel::none;
  }
  for (const auto& l : kLevels) {
    if (iequals(l.name, word)) return l.level;
  }
  return fail(resolve::ResolveError::bad_setting,
              program + "_tls_security_level: no such level \"" + printable(word, 50) + "\"");
}

}  // namespace

Result<std::map<std::string, Transport>> read_transports(
    const config::Config& config, const std::vector<std::string>& own_addresses) {
  std::map<std::string, Transport> transports;
  const auto ports = smtp_ports(config);
  for (const auto& service : config.master()) {
    if (service.type != config::ServiceType::unix_stream) continue;
    Transport t;
    if (service.command == "smtp" || service.command == "lmtp") {
      const bool lmtp = service.command == "lmtp";
      t.program = lmtp ? Transport::Program::lmtp : Transport::Program::smtp;
      const config::Config own = config.with(service);
      auto hosts = host_options(own.settings(), lmtp);
      if (!hosts) return fail(std::move(hosts).error().within(service.label()));
      t.hosts = *std::move(hosts);
      auto level = tls_level(own, lmtp ? "lmtp" : "smtp");
      if (!level) return fail(std::move(level).error().within(service.label()));
      t.tls = *level;
      t.hosts.own_addresses = {own_addresses.begin(), own_addresses.end()};
      t.hosts.own_ports = ports;
    }
    transports.insert_or_assign(service.name, std::move(t));
  }
  return transports;
}

Result<net::ResolverOptions> resolver_options(const config::Settings& settings,
                                              std::string_view resolv_conf) {
  net::ResolverOptions options;
  options.timeout = settings.dns_resolver_timeout;
  if (settings.dns_resolver_addresses.empty()) {
    net::apply_resolv_conf(resolv_conf, options);
  } else {
    PEN_TRY_ASSIGN(options.servers,
                   net::parse_servers(join(settings.dns_resolver_addresses),
                                      static_cast<unsigned short>(settings.dns_resolver_port)));
  }
  return options;
}

}  // namespace pen::rewrite
