#pragma once
/// The names of sockets without a file (abstract ones) on this host, of those that begin in a given way.
///
/// Use:     PEN_TRY_ASSIGN(const auto names, listening_names("penstock-keeper-17"));
/// Source:  /proc/net/unix; where that is not there, as where /proc is mounted with subset=pid, the kernel's list by
///          netlink: sock_diag(7).
/// Errors:  errno of the second way: neither is to be had.
/// Thread:  any. It does not wait for other processes.
#include <set>
#include <string>

#include "lib/base/result.h"

namespace pen::service {

inline constexpr const char* kSocketTable = "/proc/net/unix";

/// Without the zero byte in front. Some may be of sockets that are connected, and do not listen. table: for tests.
Result<std::set<std::string>> listening_names(const std::string& prefix, const char* table = kSocketTable);

}  // namespace pen::service
