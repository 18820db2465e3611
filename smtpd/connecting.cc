#include "smtpd/connecting.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "lib/net/helper/reach.h"

namespace pen::smtpd {

async::Task<std::expected<async::Stream, std::string>> connect_to(async::Loop& loop, Names& names,
                                                                  helper::ServerAddress to, Families families,
                                                                  async::Until until) {
  std::vector<async::SocketAddress> ways = to.ways();
  const auto in_use = [&](const async::SocketAddress& at) {
    return at.is_unix() || (at.is_ipv6() ? families.ipv6 : families.ipv4);
  };
  // localhost has one of each; an address that is written is taken as it is.
  if (std::ranges::any_of(ways, in_use)) std::erase_if(ways, std::not_fn(in_use));
  if (to.has_name()) {
    const HostAddresses host = co_await names.addresses(to.host, families, until);
    if (host.state != NameState::ok)
      co_return std::unexpected(
          fmt::format("host {} {}: {}", to.host,
                      host.state == NameState::temporary ? "cannot be looked up now" : "not found", host.why));
    for (const auto& address : host.addresses) ways.push_back(async::SocketAddress::inet(address, to.port));
  }
  auto connected = co_await helper::reach(loop, std::move(ways), until);
  if (!connected) co_return std::unexpected(connected.error().message());
  co_return *std::move(connected);
}

}  // namespace pen::smtpd
