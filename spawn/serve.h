#pragma once
/// One connection that a command serves: handed to the helper, which runs the command
/// (lib/send/mailbox/connection.h), and waited for.
///
/// Use:     auto end = co_await serve_connection(loop, std::move(stream), limit);
/// Helper:  that of mailbox::Nursery::instance().
/// Limit:   the helper's process keeps it; here it is how long an answer is waited for.
/// Death:   of this program, or of the task: the command is killed.
/// Errors:  the helper refuses or has ended; the process that runs the command ends without a word, or says none that
///          it can say.
/// Thread:  the loop's.
#include <chrono>

#include "lib/base/async/stream.h"
#include "lib/send/mailbox/request.h"

namespace pen::spawner {

async::Task<Result<mailbox::CommandEnd>> serve_connection(async::Loop& loop, async::Stream connection,
                                                          std::chrono::seconds limit);

}  // namespace pen::spawner
