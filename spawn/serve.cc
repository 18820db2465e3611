#include "spawn/serve.h"

#include <cerrno>

#include "lib/base/async/readiness.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/nursery.h"

namespace pen::spawner {
namespace {

// A command that does not die, and a busy host.
constexpr seconds kLate = 6 * mailbox::kGrace;

}  // namespace

async::Task<Result<mailbox::CommandEnd>> serve_connection(async::Loop& loop, async::Stream connection,
                                                          std::chrono::seconds limit) {
  const auto control = mailbox::Nursery::instance().serve(connection.fd());
  connection.close();  // the client sees the command's end
  if (!control) co_return std::unexpected(control.error());
  async::Readiness told(loop, control->get());
  if (auto in_time = co_await told.readable({.deadline = loop.now() + limit + kLate}); !in_time)
    co_return std::unexpected(std::move(in_time).error());
  const auto answer = mailbox::receive_descriptor(control->get());
  if (!answer) co_return std::unexpected(answer.error());
  if (const auto end = mailbox::parse_command_end(answer->bytes)) co_return *end;
  co_return fail_errno("the process that runs it", answer->bytes.empty() ? ECHILD : EPROTO);
}

}  // namespace pen::spawner
