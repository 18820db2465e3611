#pragma once
/// The default of mynetworks, made from this host's own interfaces.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::config {

/// "127.0.0.0/8 192.0.2.0/24 [::1]/128", IPv4 first, without repeats.
/// interfaces: all of the machine's; listen: the items of inet_interfaces (all, loopback-only, addresses);
/// protocols: the items of inet_protocols.
/// Source: postconf(5) mynetworks, mynetworks_style. IPv6 has no address classes: class means subnet there.
std::string own_networks(const std::vector<InterfaceAddress>& interfaces, NetworksStyle style,
                         const std::vector<std::string>& listen, const std::vector<std::string>& protocols);

}  // namespace pen::config
