#include "lib/sessions/status.h"

#include "lib/ipc/channel.h"

namespace pen::sessions {

using namespace ipc::sessions;

async::Task<Result<Status>> ask_status(async::Loop& loop, std::string path, async::Until until) {
  auto channel = co_await ipc::connect_channel<FromAnvil, ToAnvil>(loop, std::move(path), kName, until);
  if (!channel) co_return fail(std::move(channel).error());
  (void)channel->send(AskStatus{1});
  for (;;) {
    auto received = co_await channel->receive(until);
    if (!received) co_return fail(std::move(received).error());
    if (auto* status = std::get_if<Status>(&received->message)) co_return std::move(*status);
  }
}

}  // namespace pen::sessions
