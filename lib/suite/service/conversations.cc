#include "lib/suite/service/conversations.h"

#include <algorithm>
#include <memory>

#include "lib/base/log.h"

namespace pen::service {

namespace {

struct Server {
  async::Loop& loop;
  ipc::AllowedPeers peers;
  std::vector<Conversation> offered;

  std::vector<std::string_view> names() const {
    std::vector<std::string_view> out;
    for (const Conversation& c : offered) out.push_back(c.name);
    return out;
  }
};

async::Task<void> session(std::shared_ptr<const Server> server, async::Stream stream) {
  auto opening = co_await ipc::greet(std::move(stream), server->peers,
                                     {.deadline = server->loop.now() + ipc::kHelloWait}, server->names());
  if (!opening) {
    log::warning("connection refused: {}", opening.error().message());
    co_return;
  }
  const Conversation& wanted = *std::ranges::find(server->offered, opening->conversation, &Conversation::name);
  const auto client = opening->peer.pid;
  if (wanted.askers == Askers::queue_manager && opening->peer.uid != 0 &&
      opening->peer.uid != server->peers.queue_owner) {
    log::warning("connection refused: conversation {} is the queue manager's: pid {} uid {}", wanted.name, client,
                 opening->peer.uid);
    co_return;
  }
  const auto ended = co_await wanted.serve(*std::move(opening));
  if (ended || ended.error().is(async::WaitError::closed) || ended.error().is(async::WaitError::cancelled)) co_return;
  log::warning("conversation {} with pid {}: {}", wanted.name, client, ended.error().message());
}

Context::Session sessions_of(Context& context, std::vector<Conversation> offered) {
  auto server = std::make_shared<const Server>(
      Server{context.loop(),
             {.mail_owner = context.owners().mail.uid, .queue_owner = context.owners().queue.uid},
             std::move(offered)});
  return [server = std::move(server)](async::Listener::Accepted accepted) {
    return session(server, std::move(accepted.stream));
  };
}

}  // namespace

void serve_conversations(Context& context, std::vector<Conversation> offered) {
  context.serve(sessions_of(context, std::move(offered)));
}

void serve_conversations_at(Context& context, const std::string& path, std::vector<Conversation> offered) {
  context.serve_at(path, sessions_of(context, std::move(offered)));
}

}  // namespace pen::service
