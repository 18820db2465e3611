#pragma once
/// anvil's half of the conversations "suppression" and "suppression_orders" (lib/suite/ipc/suppression.h): requests
/// of one client, which wait for the file beside each other.
///
/// Use:     loop.spawn("client", answer_suppression(loop, list, SuppressionChannel(std::move(opening))));
/// Bounds:  kMostInHand requests of a client; further ones wait in its socket. Texts that are too long for the list
///          are cut before they wait.
/// Rights:  qmgr alone hears what hosts say of our mail, so what another program calls a bounce ends its conversation:
///          one that was taken over would else have any address refused at once.
/// Failed:  a failure that cannot be written is answered, for it is told again; silence would look like a dead anvil.
/// Thread:  the loop's. They end with the client.
#include <memory>
#include <string>

#include "anvil/suppression.h"
#include "lib/suite/ipc/channel.h"

namespace pen::anvil {

/// More than a client tells of failures at once (suppression::Client::kMostTold), so that questions are not behind
/// them.
inline constexpr std::size_t kMostInHand = 4000;

using SuppressionChannel = ipc::Channel<ipc::suppression::ToAnvil, ipc::suppression::FromAnvil>;
using SuppressionOrders = ipc::Channel<ipc::suppression::OrderToAnvil, ipc::suppression::OrderFromAnvil>;

/// program: the client; empty: it did not show a badge, and may be any.
async::Task<Result<void>> answer_suppression(async::Loop& loop, std::shared_ptr<Suppression> list,
                                             SuppressionChannel channel, std::string program);
async::Task<Result<void>> answer_orders(async::Loop& loop, std::shared_ptr<Suppression> list,
                                        SuppressionOrders channel);

}  // namespace pen::anvil
