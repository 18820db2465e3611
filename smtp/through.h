#pragma once
/// Makes the connection that a dialogue runs over: from its source's address, or through the source's proxy.
///
/// Use:     auto stream = co_await reach(loop, destination, through, until);
///          if (!stream) … stream.error() says what failed: host, proxy or source
/// Rules:   what the proxy says of the host counts as the host's; whatever else goes wrong with a proxy, and an address
///          of the source that this host does not have, is the source's (Trouble::source). A proxy of kind haproxy says
///          nothing: when it cannot reach the host it hangs up, which looks like the host's doing.
/// Source:  lib/send/egress/socks5.h, lib/send/egress/proxy_v2.h.
#include <expected>
#include <string>

#include "lib/base/async/stream.h"
#include "lib/suite/ipc/delivery.h"

namespace pen::smtp {

struct Unreached {
  ipc::delivery::Trouble trouble = ipc::delivery::Trouble::unreachable;
  std::string text;
};
/// destination has a numeric address, through a proxy.
async::Task<std::expected<async::Stream, Unreached>> reach(async::Loop& loop, ipc::Destination destination,
                                                           ipc::delivery::Through through, async::Until until);

/// "source NAME: " and why.
std::string source_trouble(const ipc::delivery::Through& through, const std::string& why);

}  // namespace pen::smtp
