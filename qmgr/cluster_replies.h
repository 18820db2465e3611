#pragma once
/// What the redis server answers to the scripts of lib/queue/destdb/leases.h, taken apart.
///
/// Use:     if (auto a = lease_reply(reply, wanted)) sharing.answered(id, a->lease, a->facts);
/// Rules:   nullopt for whatever is not exactly such an answer: the server is given up then. Facts that make no sense
///          are left to lib/queue/destdb/groups.h.
/// Pure; any thread.
#include <cstdint>
#include <optional>

#include "lib/net/redis/reply.h"
#include "lib/queue/destdb/sharing.h"

namespace pen::qmgr {

struct LeaseReply {
  destdb::LeaseAnswer lease;
  destdb::ClusterSharing::Told facts;
};
/// wanted: connections that were asked for.
std::optional<LeaseReply> lease_reply(const redis::Reply& reply, std::uint32_t wanted);
/// A version, or a number of hosts.
std::optional<std::uint64_t> number_reply(const redis::Reply& reply);

}  // namespace pen::qmgr
