#pragma once
/// What anvil counts of session classes, asked once: for `penstock status` and `pendest explain`.
///
/// Use:     auto status = co_await ask_status(loop, queue_path(ipc::kAnvilSocket), until);
/// Errors:  the connection's; anvil that ends or is silent beyond `until`.
#include <string>

#include "lib/base/async/loop.h"
#include "lib/base/async/task.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::sessions {

/// path: of anvil's socket. The loop must outlive the task.
async::Task<Result<ipc::sessions::Status>> ask_status(async::Loop& loop, std::string path, async::Until until);

}  // namespace pen::sessions
