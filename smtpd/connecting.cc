#include "smtpd/connecting.h"

#include <fmt/format.h>

#include <ranges>
#include <vector>

namespace pen::smtpd {

async::Task<std::expected<async::Stream, std::string>> connect_to(async::Loop& loop, Names& names, HelperAddress to,
                                                                  async::Until until) {
  std::vector<async::SocketAddress> ways;
  if (to.host.empty()) {
    ways.push_back(to.address);
  } else {
    const HostAddresses host = co_await names.addresses(to.host, to.families, until);
    if (host.state != NameState::ok)
      co_return std::unexpected(
          fmt::format("host {} {}: {}", to.host,
                      host.state == NameState::temporary ? "cannot be looked up now" : "not found", host.why));
    for (const auto& address : host.addresses | std::views::take(kMaxAddresses))
      ways.push_back(async::SocketAddress::inet(address, to.address.port));
  }
  for (std::size_t i = 0;; ++i) {
    const auto left = until.deadline - loop.now();
    const async::Until own{.deadline = loop.now() + left / static_cast<std::int64_t>(ways.size() - i),
                           .cancel = until.cancel};
    auto connected = co_await async::connect(loop, ways[i], own);
    if (connected) co_return *std::move(connected);
    if (i + 1 == ways.size()) co_return std::unexpected(connected.error().message());
  }
}

}  // namespace pen::smtpd
