#pragma once
/// The address of the before-queue content filter and how to talk to it: smtpd_proxy_*.
///
/// Use:     auto proxy = ProxySettings::read(settings, warnings);      // part of Policy
/// Thread:  any.
/// Source:  Postfix SMTPD_PROXY_README, smtpd_proxy_*.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/config/settings.h"
#include "lib/net/helper/server_address.h"

namespace pen::smtpd {

/// inet_protocols.
struct Families {
  bool ipv4 = true, ipv6 = true;
};
Families families_of(const config::Settings& settings);

enum class ProxySettingsError { bad_address = 1 };
inline std::string_view error_module(ProxySettingsError) { return "proxy filter"; }
std::string_view describe(ProxySettingsError e);

struct ProxySettings {
  helper::ServerAddress address;
  Families families;
  milliseconds timeout{seconds(100)};
  std::string helo;
  bool speed_adjust = false;  // connect to the filter only when the whole message has arrived

  /// nullopt: no filter is set. Errors: smtpd_proxy_filter is not "host:port", "inet:host:port" (without a host: this
  /// one) or "unix:path".
  static Result<std::optional<ProxySettings>> read(const config::Settings& s, std::vector<std::string>& warnings);
};

}  // namespace pen::smtpd
