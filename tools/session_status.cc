#include "tools/session_status.h"

#include "lib/suite/ipc/topology.h"
#include "lib/suite/sessions/status.h"

namespace pen::tools {

using ipc::sessions::Status;

namespace {

async::Task<void> ask(async::Loop* loop, std::string path, Result<Status>* out) {
  *out = co_await sessions::ask_status(*loop, std::move(path), {.deadline = loop->now() + seconds(10)});
}

}  // namespace

std::expected<Status, std::string> session_status(const config::Config& config) {
  async::Loop loop;
  Result<Status> answer = fail(async::WaitError::closed);
  loop.spawn("ask", ask(&loop, config.settings().queue_directory + "/" + std::string(ipc::kAnvilSocket), &answer));
  loop.run();
  if (!answer) return std::unexpected("anvil cannot be asked: " + answer.error().message());
  return *std::move(answer);
}

}  // namespace pen::tools
