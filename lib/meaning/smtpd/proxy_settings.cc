#include "lib/meaning/smtpd/proxy_settings.h"

#include <algorithm>

#include "lib/base/text.h"

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
  if (trim(s.smtpd_proxy_filter).empty()) return std::nullopt;
  ProxySettings out;
  out.families = families_of(s);
  auto address = helper::ServerAddress::parse(
      s.smtpd_proxy_filter,
      {.directory = s.queue_directory, .default_host = "localhost", .bare = helper::ServerAddress::Bare::host});
  if (!address)
    return fail(ProxySettingsError::bad_address,
                "smtpd_proxy_filter: " + printable(s.smtpd_proxy_filter, 100) + ": " + address.error());
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

std::string_view describe(ProxySettingsError e) {
  switch (e) {
    case ProxySettingsError::bad_address:
      return "not the address of a filter";
  }
  return "unknown";
}

}  // namespace pen::smtpd
