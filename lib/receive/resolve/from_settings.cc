#include "lib/receive/resolve/from_settings.h"

#include <netdb.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "lib/base/text.h"
#include "lib/config/compatibility.h"
#include "lib/mail/delimiters.h"

namespace pen::resolve {
namespace {

void add(std::vector<std::string>& to, std::string_view address) {
  if (const auto ip = parse_ip(address)) {
    std::string text = ip->text();
    if (std::ranges::find(to, text) == to.end()) to.push_back(std::move(text));
  }
}
void add_name(std::vector<std::string>& to, const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(i->ai_addr, i->ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      add(to, host.data());
    }
  }
  freeaddrinfo(list);
}

}  // namespace

std::vector<std::string> interface_addresses(const config::Settings& settings) {
  std::vector<std::string> own;
  for (const auto& word : settings.inet_interfaces) {
    const bool all = iequals(word, "all");
    const bool loopback = iequals(word, "loopback-only");
    if (!all && !loopback) {
      if (parse_ip(word)) {
        add(own, word);
      } else {
        add_name(own, word);
      }
      continue;
    }
    for (const auto& interface : config::system_surroundings().interfaces) {
      if (all || interface.address.starts_with("127.") || interface.address == "::1") add(own, interface.address);
    }
  }
  return own;
}

std::vector<std::string> own_addresses(const config::Settings& settings) {
  std::vector<std::string> own = interface_addresses(settings);
  for (const auto& word : settings.proxy_interfaces) add(own, word);
  return own;
}

Options from_settings(const config::Settings& s) {
  Options o;
  o.myorigin = s.myorigin;
  o.mydomain = s.mydomain;
  o.myhostname = s.myhostname;
  o.mydestination = join(s.mydestination);
  o.own_addresses = own_addresses(s);
  o.virtual_alias_domains = join(s.virtual_alias_domains);
  o.virtual_mailbox_domains = join(s.virtual_mailbox_domains);
  o.relay_domains = join(s.relay_domains);
  o.virtual_alias_maps = join(s.virtual_alias_maps);
  o.virtual_mailbox_maps = join(s.virtual_mailbox_maps);
  o.relay_recipient_maps = join(s.relay_recipient_maps);
  o.local_recipient_maps = join(s.local_recipient_maps);
  o.alias_maps = join(s.alias_maps);
  o.canonical_maps = join(s.canonical_maps);
  o.sender_canonical_maps = join(s.sender_canonical_maps);
  o.recipient_canonical_maps = join(s.recipient_canonical_maps);
  o.canonical_classes = join(s.canonical_classes);
  o.sender_canonical_classes = join(s.sender_canonical_classes);
  o.recipient_canonical_classes = join(s.recipient_canonical_classes);
  o.masquerade_domains = join(s.masquerade_domains);
  o.masquerade_classes = join(s.masquerade_classes);
  o.masquerade_exceptions = join(s.masquerade_exceptions);
  o.propagate_unmatched_extensions = join(s.propagate_unmatched_extensions);
  o.transport_maps = join(s.transport_maps);
  o.relayhost = s.relayhost;
  o.sender_dependent_relayhost_maps = join(s.sender_dependent_relayhost_maps);
  o.sender_dependent_default_transport_maps = join(s.sender_dependent_default_transport_maps);
  o.empty_address_relayhost_maps_lookup_key = s.empty_address_relayhost_maps_lookup_key;
  o.empty_address_default_transport_maps_lookup_key = s.empty_address_default_transport_maps_lookup_key;
  o.relocated_maps = join(s.relocated_maps);
  o.relocated_prefix_enable = s.relocated_prefix_enable;
  o.local_transport = s.local_transport;
  o.virtual_transport = s.virtual_transport;
  o.relay_transport = s.relay_transport;
  o.default_transport = s.default_transport;
  o.recipient_delimiter = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
  o.empty_address_recipient = s.empty_address_recipient;
  o.double_bounce_sender = s.double_bounce_sender;
  o.parent_domain_matches_subdomains = join(s.parent_domain_matches_subdomains);
  o.append_at_myorigin = s.append_at_myorigin;
  o.append_dot_mydomain = s.append_dot_mydomain;
  o.swap_bangpath = s.swap_bangpath;
  o.allow_percent_hack = s.allow_percent_hack;
  o.virtual_alias_expansion_limit = static_cast<std::size_t>(s.virtual_alias_expansion_limit);
  o.virtual_alias_recursion_limit = static_cast<std::size_t>(s.virtual_alias_recursion_limit);
  o.virtual_alias_address_length_limit = static_cast<std::size_t>(s.virtual_alias_address_length_limit);
  o.resolve_dequoted_address = s.resolve_dequoted_address;
  o.resolve_null_domain = s.resolve_null_domain;
  o.resolve_numeric_domain = s.resolve_numeric_domain;
  o.srs = {.domain = s.srs_domain,
           .secrets_file = s.srs_secrets_file,
           .exclude_domains = join(s.srs_exclude_domains),
           .separator = s.srs_separator,
           .hash_length = static_cast<std::size_t>(s.srs_hash_length),
           .hash_minimum = static_cast<std::size_t>(s.srs_hash_minimum),
           .max_age_days = static_cast<unsigned>(s.srs_max_age / std::chrono::days(1))};
  o.open.default_type = s.default_database_type;
  return o;
}

Options from_config(const config::Config& config) {
  Options o = from_settings(config.settings());
  if (auto delimiter = config.text(config::kCleanupDelimiter))
    o.mapping_delimiter = mail::delimiters(*std::move(delimiter), config.settings().owner_request_special);
  return o;
}

bool parent_domains(const config::Settings& s, std::string_view list) {
  return list_contains(join(s.parent_domain_matches_subdomains), list);
}

std::optional<Options> for_probes(const config::Settings& s) {
  Options o = from_settings(s);
  const Options mail = o;
  o.route_prefix = "address_verify_";
  o.transport_maps = join(s.address_verify_transport_maps);
  o.relayhost = s.address_verify_relayhost;
  o.sender_dependent_relayhost_maps = join(s.address_verify_sender_dependent_relayhost_maps);
  o.sender_dependent_default_transport_maps = join(s.address_verify_sender_dependent_default_transport_maps);
  o.local_transport = s.address_verify_local_transport;
  o.virtual_transport = s.address_verify_virtual_transport;
  o.relay_transport = s.address_verify_relay_transport;
  o.default_transport = s.address_verify_default_transport;
  const auto routing = [](const Options& of) {
    return std::tie(of.transport_maps, of.relayhost, of.sender_dependent_relayhost_maps,
                    of.sender_dependent_default_transport_maps, of.local_transport, of.virtual_transport,
                    of.relay_transport, of.default_transport);
  };
  if (routing(o) == routing(mail)) return std::nullopt;
  return o;
}

}  // namespace pen::resolve
