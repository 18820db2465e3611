#pragma once
/// The bounds of what socketmap: tables of this process send and take: socketmap_max_query_size and
/// socketmap_max_reply_size.
///
/// Use:     limit_socketmaps({.query = …, .reply = …});         at the start
/// Owns:    what was set last, for this process. Until then: the defaults of Postfix.
/// Thread:  any.
#include <cstddef>

namespace pen::map {

struct SocketmapLimits {
  std::size_t query = 10'000;   // bytes: the name of the map, a blank and the key
  std::size_t reply = 100'000;  // bytes of content
};
void limit_socketmaps(SocketmapLimits limits);
SocketmapLimits socketmap_limits();

}  // namespace pen::map
