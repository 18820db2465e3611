// A small program on lib/suite/service, for the tests of master. It answers lines on its sockets:
//   pid       its process id            limit   its limit
//   die       exits with status 3       hang    ignores the order to drain from now on
//   violate   tells master of a forbidden system call, and ends as after one
// The word "fails" in master.cf makes its start fail, for the reason that follows it, if one does.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/suite/confine/apply.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/service.h"

namespace {

using namespace pen;

bool hanging = false;

async::Task<void> session(service::Context* context, async::Listener::Accepted accepted) {
  for (;;) {
    auto line = co_await accepted.stream.read_line(100);
    if (!line) co_return;
    if (*line == "pid") {
      accepted.stream.write(std::to_string(::getpid()) + "\n");
    } else if (*line == "limit") {
      accepted.stream.write(std::to_string(context->arguments().limit) + "\n");
    } else if (*line == "die") {
      std::_Exit(3);
    } else if (*line == "violate") {
      const std::string word = std::string(confine::kViolation) + "execve (59): the process ends";
      (void)!::send(service::kStatusFd, word.data(), word.size(), MSG_NOSIGNAL);
      std::_Exit(77);
    } else if (*line == "hang") {
      hanging = true;
      accepted.stream.write("hanging\n");
    }
  }
}

async::Task<void> drain(service::Context* context) {
  async::Event never(context->loop());
  if (hanging) (void)co_await never.wait();
  (void)co_await context->sessions().drained();
}

}  // namespace

int main(int argc, char** argv) {
  return service::run(argc, argv, {.name = "testd", .summary = "answers the tests of master"},
                      [](service::Context& context) -> Result<service::Hooks> {
                        const auto& words = context.arguments().rest;
                        if (!words.empty() && words.front() == "fails")
                          return fail_errno(words.back() == "fails" ? "told to" : words.back(), EIO);
                        auto* c = &context;
                        context.serve([c](async::Listener::Accepted a) { return session(c, std::move(a)); });
                        return service::Hooks{.drain = [c] { return drain(c); }};
                      });
}
