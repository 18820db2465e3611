#pragma once
/// Connects to a server whose host may have several addresses, on a loop.
///
/// Use:     auto found = co_await pool.run([server] { return helper::look_up(server); });      // if server.has_name()
///          auto stream = co_await helper::reach(loop, *std::move(found), {.deadline = …});
/// Rules, errors: those of look_up.h. Without a deadline each address has the kernel's time.
/// Thread:  the loop's.
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/net/helper/look_up.h"

namespace pen::helper {

async::Task<Result<async::Stream>> reach(async::Loop& loop, std::vector<async::SocketAddress> ways, async::Until until);

}  // namespace pen::helper
