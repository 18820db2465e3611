#pragma once
/// The addresses that a hosts file (/etc/hosts, hosts(5)) has for a name; no server is asked.
///
/// Bounds:  a file of at most kMaxHostsFile bytes, the first kMaxHostAddresses addresses of a name.
/// Source:  hosts(5): "address name [alias …]", "#" starts a comment; names in any case.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::net {

inline constexpr std::size_t kMaxHostsFile = 16u << 20;
inline constexpr std::size_t kMaxHostAddresses = 100;

/// Numeric addresses of the name, in the file's order, without repeats. Pure. Lines without a numeric address are
/// skipped.
std::vector<std::string> hosts_addresses(std::string_view text, std::string_view name);
/// The same from a file in its present state; a missing file has none. Blocks for the time of reading a local file:
/// for the handler pool. Errors: errno of reading; EFBIG.
Result<std::vector<std::string>> read_hosts_file(const std::string& path, std::string_view name);

}  // namespace pen::net
