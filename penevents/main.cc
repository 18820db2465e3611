/// penevents: what happens to mail, as JSON: to a file, to readers, to web servers. See man/penevents.8.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/net/https/client.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/events.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/service.h"
#include "penevents/hub.h"

namespace {

using namespace pen;
using penevents::Hub;
using Channel = ipc::Channel<ipc::events::ToEvents, ipc::events::FromEvents>;

constexpr std::size_t kMaxSecret = 4096;
constexpr seconds kHearOut{3};

/// Read while the rights are there: root alone may be able to.
Result<std::string> read_secret(const std::string& path) {
  if (path.empty()) return std::string();
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (!S_ISREG(st.st_mode)) return fail_errno(path + " is no file", EINVAL);
  if ((st.st_mode & 07) != 0)
    return fail(config::ConfigError::bad_value, "event_webhook_secret_file: others may read or write " + path);
  std::string text(kMaxSecret + 1, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return fail_errno(path);
  text.resize(static_cast<std::size_t>(n));
  std::string secret(trim(text));
  if (secret.empty() || text.size() > kMaxSecret)
    return fail(config::ConfigError::bad_value, "event_webhook_secret_file: " + path + " is empty or too long");
  return secret;
}

/// program: the client; empty: it did not show a badge.
async::Task<Result<void>> hear(std::shared_ptr<Hub> hub, std::shared_ptr<Channel> channel, std::string program) {
  for (;;) {
    // One that does not read what it is answered is not heard further.
    if (channel->congested()) PEN_CO_TRY(co_await channel->flush());
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel->receive());
    const auto& told = std::get<ipc::events::Told>(received.message);
    if (!program.empty() && told.program != program)
      co_return fail(ipc::IpcError::out_of_place, program + " tells events of " + printable(told.program, 50));
    const bool answers = channel->peer_revision() >= ipc::events::kWrittenRevision;
    auto written = [answers, bytes = told.events.size(), to = std::weak_ptr(channel)] {
      if (const auto client = to.lock(); client && answers) (void)client->send(ipc::events::Written{bytes});
    };
    if (!hub->take(told, std::move(written))) co_return fail(ipc::IpcError::malformed_frame);
  }
}

async::Task<void> session(std::shared_ptr<Hub> hub, async::Stream stream, ipc::AllowedPeers peers) {
  const auto at = async::local_address(stream.fd());
  if (at && service::is_at(*at, service::kEventStream)) {
    co_await Hub::read_stream(hub, std::move(stream));
    co_return;
  }
  async::Loop& loop = hub->loop();
  auto opening =
      co_await ipc::greet(std::move(stream), peers, {.deadline = loop.now() + ipc::kHelloWait}, {ipc::events::kName});
  if (!opening) {
    log::warning("connection refused: {}", opening.error().message());
    co_return;
  }
  const auto client = opening->peer.pid;
  std::string program = opening->program;
  const auto ended = co_await hear(hub, std::make_shared<Channel>(*std::move(opening)), std::move(program));
  if (!ended && !ended.error().is(async::WaitError::closed) && !ended.error().is(async::WaitError::cancelled))
    log::warning("events of pid {}: {}", client, ended.error().message());
}

/// What is under way to us arrives first: programs that end beside us hang up.
async::Task<void> drain(service::Context* context, std::shared_ptr<Hub> hub) {
  (void)co_await context->sessions().drained({.deadline = hub->loop().now() + kHearOut});
  hub->end();
  co_await hub->loop().next_turn();  // what is written is said: else it would be told again
}

Result<void> look(service::Context& context) {
  PEN_TRY(read_secret(context.settings().event_webhook_secret_file));
  return Hub::check(context.settings());
}

Result<service::Hooks> start(service::Context& context, Result<std::string> secret) {
  PEN_TRY_ASSIGN(auto text, std::move(secret));
  PEN_TRY_ASSIGN(auto hub, Hub::open(context, std::move(text)));
  hub->start();
  context.serve([hub, peers = ipc::AllowedPeers{.mail_owner = context.owners().mail.uid,
                                                .queue_owner = context.owners().queue.uid}](
                    async::Listener::Accepted accepted) { return session(hub, std::move(accepted.stream), peers); });
  return service::Hooks{.drain = [&context, hub] { return drain(&context, hub); },
                        .status = [hub] { return hub->status(); },
                        .log_rotated = [hub] { hub->look_at_files(); }};
}

}  // namespace

int main(int argc, char** argv) {
  pen::https::start();
  pen::Result<std::string> secret = std::string();
  return pen::service::run(
      argc, argv,
      {.name = "penevents",
       .summary = "tells what happens to mail, as JSON",
       .look = look,
       .with_privileges =
           [&secret](const pen::config::Config& c) { secret = read_secret(c.settings().event_webhook_secret_file); }},
      [&secret](pen::service::Context& c) { return start(c, std::move(secret)); });
}
