#include "lib/resolve/name_servers.h"

#include <fstream>
#include <sstream>

#include "lib/base/text.h"

namespace pen::resolve {

std::string read_resolv_conf() {
  std::ifstream file("/etc/resolv.conf");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Result<net::ResolverOptions> name_servers(const config::Settings& settings, std::string_view resolv_conf) {
  net::ResolverOptions options;
  options.timeout = settings.dns_resolver_timeout;
  if (settings.dns_resolver_addresses.empty()) {
    net::apply_resolv_conf(resolv_conf, options);
  } else {
    PEN_TRY_ASSIGN(options.servers, net::parse_servers(join(settings.dns_resolver_addresses),
                                                       static_cast<unsigned short>(settings.dns_resolver_port)));
  }
  return options;
}

}  // namespace pen::resolve
