#pragma once
/// Serves conversations of lib/suite/ipc on the sockets that master gave the program.
///
/// Use:     service::serve_conversations(context, {
///              {ipc::sessions::kName, [server](ipc::Opening o) { return hold(server, Channel(std::move(o))); }},
///              {ipc::clients::kName, [server](ipc::Opening o) {
///                 return count(server, ClientChannel(std::move(o)));
///              }}});
///          `hold` and `count` are coroutines: each serves one client, and returns the error that ended it.
/// Rules:   the lambda is no coroutine itself. A conversation that should end when the program drains passes
///          &context.draining() as `cancel` in its waits.
/// Peers:   root; of the program's own account, mail_owner and queue_owner, a client with the badge of a program that
///          may hold the conversation (docs/who-may-talk.md).
/// Bounds:  a client has ipc::kHelloWait for its hello; connections are bounded as Context::serve() says.
/// Errors:  are logged here, a line each: a client that is refused, and the end of a conversation, unless the client
///          closed it or it was cancelled.
/// Thread:  the loop's.
#include <functional>
#include <string_view>
#include <vector>

#include "lib/suite/ipc/channel.h"
#include "lib/suite/service/service.h"

namespace pen::service {

/// The clients that may ask for a conversation, besides root.
enum class Askers : std::uint8_t {
  programs,       // all of the suite
  queue_manager,  // queue_owner alone: what is asked is done with rights that no other program is to have
};

struct Conversation {
  std::string_view name;  // a constant of lib/suite/ipc
  std::function<async::Task<Result<void>>(ipc::Opening)> serve;
  Askers askers = Askers::programs;
};

void serve_conversations(Context& context, std::vector<Conversation> offered);
/// Serves them on one inherited Unix socket alone, for a program that uses its other sockets for something else: call
/// it before Context::serve().
void serve_conversations_at(Context& context, const std::string& path, std::vector<Conversation> offered);

}  // namespace pen::service
