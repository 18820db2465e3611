#include "lib/net/helper/reach.h"

namespace pen::helper {

async::Task<Result<async::Stream>> reach(async::Loop& loop, std::vector<async::SocketAddress> ways,
                                         async::Until until) {
  if (ways.empty()) co_return fail(HelperError::no_address);
  if (ways.size() > kMostWays) ways.resize(kMostWays);
  for (std::size_t i = 0;; ++i) {
    async::Until own = until;
    if (until.deadline != kNever) own.deadline = share_of(loop.now(), until.deadline, ways.size() - i);
    auto connected = co_await async::connect(loop, ways[i], own);
    if (connected || i + 1 == ways.size()) co_return connected;
  }
}

}  // namespace pen::helper
