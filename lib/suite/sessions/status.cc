#include "lib/suite/sessions/status.h"

#include "lib/suite/ipc/ask_once.h"

namespace pen::sessions {

using namespace ipc::sessions;

async::Task<Result<Status>> ask_status(async::Loop& loop, std::string path, async::Until until) {
  co_return co_await (
      ipc::ask_once<FromAnvil, ToAnvil, Status>(loop, std::move(path), kName, AskStatus{1}, {.until = until}));
}

}  // namespace pen::sessions
