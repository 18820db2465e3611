#pragma once
/// One question to a service, over a connection of its own. lib/suite/ipc/questions.h is for clients that stay.
///
/// Use:     const auto status = co_await ask_once<FromAnvil, ToAnvil, Status>(loop, path, kName, AskStatus{1},
///                                                                            {.until = until});
/// Errors:  as connect_channel(), send() and receive(). The server may have acted all the same.
/// Answer:  owns its texts: the connection is gone when it is returned.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lib/suite/ipc/channel.h"

namespace pen::ipc {

struct Patience {
  async::Until until;              // for all of it
  SteadyTime greeted_by = kNever;  // for the connection and its hello
};

/// In, Out: the variants of the two directions, as this side sees them. see: gets what comes before the answer.
template <class In, class Out, class Answer>
async::Task<Result<Answer>> ask_once(async::Loop& loop, std::string path, std::string_view conversation, Out question,
                                     Patience patience, std::function<void(In&)> see = {}) {
  async::Until greeted = patience.until;
  greeted.deadline = std::min(greeted.deadline, patience.greeted_by);
  auto channel = co_await connect_channel<In, Out>(loop, std::move(path), conversation, greeted);
  if (!channel) co_return fail(std::move(channel).error());
  auto sent = std::visit([&](const auto& message) { return channel->send(message); }, question);
  if (!sent) co_return fail(std::move(sent).error());
  for (;;) {
    auto received = co_await channel->receive(patience.until);
    if (!received) co_return fail(std::move(received).error());
    if (auto* answer = std::get_if<Answer>(&received->message)) co_return std::move(*answer);
    if (see) see(received->message);
  }
}

}  // namespace pen::ipc
