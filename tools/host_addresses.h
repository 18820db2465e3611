#pragma once
/// Addresses that a configuration wants to listen at or send from, and that this host does not have.
///
/// Use:     for (const auto& p : foreign_addresses(config, plan, this_host())) …              // penstock check
/// Passes:  all of 127.0.0.0/8; everything where the kernel lets programs bind to any address (ip_nonlocal_bind), as on
///          hosts that share an address.
/// Blocks:  this_host() only.
#include <string_view>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/service/plan.h"

namespace pen::tools {

struct HostAddresses {
  std::vector<config::InterfaceAddress> interfaces;  // empty: not known, nothing is reported
  bool any_ipv4 = false, any_ipv6 = false;           // ip_nonlocal_bind
  bool can_bind(std::string_view numeric) const;
};
HostAddresses this_host();

/// With the place of the setting or of the service. An error: master would not start. A warning: mail leaves from
/// another address, or waits.
config::Problems foreign_addresses(const config::Config& config, const service::Plan& plan, const HostAddresses& host);

}  // namespace pen::tools
