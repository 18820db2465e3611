#include "lib/smtpd/proxy_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/sasl/dovecot_service.h"

namespace pen::smtpd {

Families families_of(const config::Settings& s) {
  const auto has = [&](std::string_view protocol) {
    return std::ranges::find(s.inet_protocols, protocol) != s.inet_protocols.end();
  };
  const bool all = has("all");
  return {.ipv4 = all || has("ipv4"), .ipv6 = all || has("ipv6")};
}

Result<std::optional<ProxySettings>> ProxySettings::read(const config::Settings& s,
                                                         std::vector<std::string>& warnings) {
  std::string where(trim(s.smtpd_proxy_filter));
  if (where.empty()) return std::nullopt;
  if (!where.starts_with("unix:") && !where.starts_with("inet:")) where.insert(0, "inet:");
  ProxySettings out;
  out.families = families_of(s);
  if (where.starts_with("inet:")) {
    const auto colon = where.rfind(':');  // if there is only a port: the colon after inet
    std::string host = colon < 5 ? std::string() : where.substr(5, colon - 5);
    const std::string port = where.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty() || iequals(host, "localhost")) {
      host = out.families.ipv4 ? "127.0.0.1" : "::1";
    } else if (mail::valid_hostname(host) && !mail::numeric_hostname(host)) {
      out.host = std::move(host);
      host.clear();  // only the port is left to parse
    }
    where = fmt::format("inet:{}:{}", host, port);
  }
  auto address = sasl::parse_service(where, s.queue_directory);
  if (!address) return fail(std::move(address).error().within("smtpd_proxy_filter"));
  out.address = *std::move(address);
  out.timeout = s.smtpd_proxy_timeout;
  out.helo = s.smtpd_proxy_ehlo;
  for (const auto& option : s.smtpd_proxy_options) {
    if (iequals(option, "speed_adjust"))
      out.speed_adjust = true;
    else
      warnings.push_back("smtpd_proxy_options: unknown option " + option);
  }
  return out;
}

std::string ProxySettings::shown() const {
  return host.empty() ? address.text() : fmt::format("{}:{}", host, address.port);
}

}  // namespace pen::smtpd
