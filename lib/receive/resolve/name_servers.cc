#include "lib/receive/resolve/name_servers.h"

#include <fstream>
#include <sstream>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"

namespace pen::resolve {

std::string read_resolv_conf() {
  std::ifstream file("/etc/resolv.conf");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::vector<std::string> search_domains(std::string_view resolv_conf) {
  static constexpr std::size_t kMost = 6;  // as libc once had it; more would be questions without end
  std::vector<std::string> domains;
  while (!resolv_conf.empty()) {
    const auto end = resolv_conf.find('\n');
    const auto words = split(resolv_conf.substr(0, end), " \t\r");
    resolv_conf.remove_prefix(end == std::string_view::npos ? resolv_conf.size() : end + 1);
    if (words.size() < 2 || (words[0] != "search" && words[0] != "domain")) continue;
    domains.clear();
    for (std::size_t i = 1; i < words.size() && domains.size() < kMost; ++i) {
      std::string_view domain = words[i];
      while (domain.ends_with('.')) domain.remove_suffix(1);
      if (!domain.empty()) domains.push_back(to_lower(domain));
    }
  }
  return domains;
}

Result<net::ResolverOptions> name_servers(const config::Settings& settings, std::string_view resolv_conf) {
  net::ResolverOptions options;
  options.timeout = settings.dns_resolver_timeout;
  idn::convert_by_idna2003(settings.enable_idna2003_compatibility);
  if (settings.dns_resolver_addresses.empty()) {
    net::apply_resolv_conf(resolv_conf, options);
  } else {
    auto servers = net::parse_servers(join(settings.dns_resolver_addresses),
                                      static_cast<unsigned short>(settings.dns_resolver_port));
    if (!servers) return fail(std::move(servers).error().within("dns_resolver_addresses"));
    options.servers = *std::move(servers);
  }
  return options;
}

}  // namespace pen::resolve
