#include "tools/queue_client.h"

#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace pen::tools {
namespace {

/// The saved group, while it lives.
class SavedGroup {
 public:
  explicit SavedGroup(const std::string& program) {
    gid_t real = 0, effective = 0, saved = 0;
    if (::getresgid(&real, &effective, &saved) != 0 || ::setegid(saved) != 0)
      die(program, EX_OSERR, "setegid: " + Error::from_errno(errno).message());
  }
  ~SavedGroup() {
    if (::setegid(::getgid()) != 0) std::abort();
  }
  SavedGroup(const SavedGroup&) = delete;
  SavedGroup& operator=(const SavedGroup&) = delete;
};

async::Task<Result<QueueChannel>> connect(const std::string& program, async::Loop& loop,
                                          const std::string& path) {
  const SavedGroup group(program);
  co_return co_await ipc::connect_channel<ipc::queue::FromQmgr, ipc::queue::ToQmgr>(
      loop, path, ipc::queue::kName, {.deadline = loop.now() + seconds(30)});
}

}  // namespace

void keep_group_for_the_socket(const char* program) {
  if (::setegid(::getgid()) != 0)
    die(program, EX_OSERR, "setegid: " + Error::from_errno(errno).message());
}

void die(const std::string& program, int code, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", program.c_str(), text.c_str());
  std::exit(code);
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) std::exit(EX_IOERR);
}

config::Config load_instance(const std::string& program, const std::string& directory) {
  auto config = config::load(config::config_directory(directory), {}, false);
  if (!config) die(program, EX_CONFIG, config.error().message());
  return *std::move(config);
}

QueueClient::QueueClient(std::string program, const config::Config& config)
    : program_(std::move(program)),
      path_(config.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket)) {}

ipc::queue::Done QueueClient::ask(const ipc::queue::ToQmgr& request, const See& see) {
  async::Loop loop;
  ipc::queue::Done done;
  loop.spawn("ask",
             [](QueueClient* self, async::Loop* l, const ipc::queue::ToQmgr* r, const See* s,
                ipc::queue::Done* d) -> async::Task<void> {
               auto channel = co_await connect(self->program_, *l, self->path_);
               if (!channel) {
                 die(self->program_, EX_UNAVAILABLE,
                     "cannot reach the queue manager (is the mail system running?): " +
                         channel.error().message());
               }
               std::visit([&](const auto& m) { static_cast<void>(channel->send(m)); }, *r);
               for (;;) {
                 auto received = co_await channel->receive({.deadline = l->now() + seconds(600)});
                 if (!received)
                   die(self->program_, EX_UNAVAILABLE,
                       "the queue manager went away: " + received.error().message());
                 if (auto* end = std::get_if<ipc::queue::Done>(&received->message)) {
                   *d = std::move(*end);
                   break;
                 }
                 (*s)(received->message, received->fds);
               }
               l->stop();
             }(this, &loop, &request, &see, &done));
  loop.run();
  return done;
}

void expect_ok(const std::string& program, const ipc::queue::Done& done) {
  using ipc::queue::Outcome;
  switch (done.outcome) {
    case Outcome::ok:
      return;
    case Outcome::not_found:
      die(program, EX_DATAERR, "no such message in the queue");
    case Outcome::denied:
      die(program, EX_NOPERM, done.text);
    case Outcome::no_space:
    case Outcome::failed:
      die(program, EX_SOFTWARE, "failed: " + done.text);
  }
}

}  // namespace pen::tools
