#pragma once
/// Serves the conversation "route": many requests from qmgr at once, answered in any order.
///
/// Bounds:  at most ipc::route::kMaxUnderWay requests of a connection are in progress; further ones wait in the socket.
/// End:     with the connection; requests still in progress are dropped, because nobody would read the answer.
#include "lib/suite/ipc/channel.h"
#include "trivial-rewrite/router.h"

namespace pen::rewrite {

struct ConversationCounts {
  std::uint64_t requests = 0, resolved = 0, failed = 0, deferred = 0;
  std::size_t under_way = 0;
};

/// Serves one connection until it ends. Errors: why it ended, unless the peer just closed it.
async::Task<Result<void>> serve_routes(async::Loop& loop, Router& router, ipc::Opening opening,
                                       ConversationCounts& counts, async::Cancel& stop);

}  // namespace pen::rewrite
