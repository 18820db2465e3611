#include "tools/session_status.h"

#include "lib/async/loop.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/topology.h"

namespace pen::tools {

using namespace ipc::sessions;

namespace {

async::Task<void> ask(async::Loop* loop, std::string path, Result<Status>* out) {
  const async::Until until{.deadline = loop->now() + seconds(10)};
  auto channel =
      co_await ipc::connect_channel<FromAnvil, ToAnvil>(*loop, std::move(path), kName, until);
  if (!channel) {
    *out = fail(std::move(channel).error());
    co_return;
  }
  static_cast<void>(channel->send(AskStatus{1}));
  for (;;) {
    auto received = co_await channel->receive(until);
    if (!received) {
      *out = fail(std::move(received).error());
      co_return;
    }
    if (auto* status = std::get_if<Status>(&received->message)) {
      *out = std::move(*status);
      co_return;
    }
  }
}

}  // namespace

std::expected<Status, std::string> session_status(const config::Config& config) {
  async::Loop loop;
  Result<Status> answer = fail(async::WaitError::closed);
  loop.spawn("ask",
             ask(&loop, config.settings().queue_directory + "/" + std::string(ipc::kAnvilSocket),
                 &answer));
  loop.run();
  if (!answer) return std::unexpected("anvil cannot be asked: " + answer.error().message());
  return *std::move(answer);
}

}  // namespace pen::tools
