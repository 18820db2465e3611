#pragma once
/// The order in which a message would take the sources of a pool.
///
/// Each source draws a number from the message's own and its name, weighted: so a message has the same order at every
/// try and after a restart, sources have their share of all messages, and one that comes or goes moves only the
/// messages that it takes or had (weighted rendezvous hashing).
///
/// Use:     for (const std::uint32_t s : order_of(file, pool, draw_of(queue_id))) if (it may be used) …
/// Pure; any thread.
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/send/egress/file.h"

namespace pen::egress {

/// The number that a message draws by.
std::uint64_t draw_of(std::string_view queue_id);
/// Sources of the pool, as indexes into file.sources, the first choice first. Those without weight are left out.
std::vector<std::uint32_t> order_of(const File& file, const Pool& pool, std::uint64_t draw);

}  // namespace pen::egress
