#include "tools/host_addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::tools {
namespace {

using config::Problem;
using config::Severity;

std::string bare(std::string text) {
  return text.starts_with('[') && text.ends_with(']') ? text.substr(1, text.size() - 2) : text;
}

bool is_on(const char* path) {
  std::ifstream in(path);
  char first = '0';
  return in.get(first) && first == '1';
}

/// Settings of one service, or of main.cf.
class BindFinder {
 public:
  BindFinder(const config::Config& whole, const HostAddresses& host, config::Problems& found)
      : whole_(whole), host_(host), found_(found) {}

  /// service: its -o are looked at; nullptr: main.cf.
  void look(const config::Config& own, const config::Service* service) {
    for (const std::string side : {"smtp", "lmtp"})
      for (const char* family : {"_bind_address", "_bind_address6"}) {
        const std::string name = side + family;
        const auto here = place(name, service);
        const std::string address = bare(own.text(name).value_or(""));
        if (!here || address.empty() || host_.can_bind(address)) continue;
        const bool waits = iequals(own.text(side + "_bind_address_enforce").value_or(""), "yes");
        found_.push_back({Severity::warning, here->file, here->line, name,
                          fmt::format("this host does not have the address {}: {}", printable(address, 60),
                                      waits ? "mail waits" : "connections leave from any address of this host")});
      }
  }

 private:
  std::optional<config::Place> place(const std::string& name, const config::Service* service) const {
    if (service == nullptr) return whole_.where(name);
    if (std::ranges::none_of(service->overrides, [&](const auto& o) { return o.name == name; })) return std::nullopt;
    return config::Place{whole_.master_file(), service->line};
  }

  const config::Config& whole_;
  const HostAddresses& host_;
  config::Problems& found_;
};

void look_at_sockets(const config::Config& config, const service::Plan& plan, const HostAddresses& host,
                     config::Problems& found) {
  std::set<std::string> told;  // by inet_interfaces, an address is wrong for all services
  for (const service::Planned& planned : plan.services) {
    if (planned.optional_sockets) continue;
    for (const async::SocketAddress& at : planned.sockets) {
      if (at.is_unix() || host.can_bind(at.host)) continue;
      const auto service = std::ranges::find(config.master(), planned.label, &config::Service::label);
      const bool named = service != config.master().end() && service->name.contains(':');
      Problem p{Severity::error, config.master_file(), 0, {}, {}};
      if (named) {
        p.line = service->line;
        p.name = planned.label;
      } else {
        if (!told.insert(at.host).second) continue;
        const auto place = config.where("inet_interfaces").value_or(config::Place{config.main_file(), 0});
        p.file = place.file;
        p.line = place.line;
        p.name = "inet_interfaces";
      }
      p.text = fmt::format("this host does not have the address {}: nothing starts that would listen there", at.host);
      found.push_back(std::move(p));
    }
  }
}

}  // namespace

bool HostAddresses::can_bind(std::string_view numeric) const {
  const auto address = parse_ip(numeric);
  if (!address || interfaces.empty()) return true;
  const bool loopback = address->size == 4 && address->bytes[0] == 127;
  const bool any = std::ranges::all_of(address->bytes, [](auto byte) { return byte == 0; });
  if (loopback || any || (address->size == 4 ? any_ipv4 : any_ipv6)) return true;
  return std::ranges::any_of(interfaces, [&](const auto& one) { return parse_ip(one.address) == address; });
}

HostAddresses this_host() {
  return {.interfaces = config::system_surroundings().interfaces,
          .any_ipv4 = is_on("/proc/sys/net/ipv4/ip_nonlocal_bind"),
          .any_ipv6 = is_on("/proc/sys/net/ipv6/ip_nonlocal_bind")};
}

config::Problems foreign_addresses(const config::Config& config, const service::Plan& plan, const HostAddresses& host) {
  config::Problems found;
  BindFinder binds(config, host, found);
  binds.look(config, nullptr);
  for (const config::Service& service : config.master())
    if (!service.overrides.empty()) binds.look(config.with(service), &service);
  look_at_sockets(config, plan, host, found);
  return found;
}

}  // namespace pen::tools
