#pragma once
/// Whether the lock of standby_lease = file keeps two hosts apart, as far as the type of its file system tells
/// (docs/standby.md).
///
/// Use:     if (const std::string doubt = doubt_of_lock(directory, settings.standby_lease_time); !doubt.empty()) … warn
/// Rules:   a disk of this host is no doubt: a replicated device is used by one host at a time. NFS keeps the lock of a
///          host that is gone for a lease time of its own, in which that host must have stopped. The locks of some
///          others hold on one host alone, or may be another's at once.
#include <string>

#include "lib/base/time.h"

namespace pen::service {

/// A sentence; empty: none. type: f_type of statfs().
std::string doubt_of_lock_on(long type, milliseconds lease_time);
/// The same for the file system of a directory; empty too if that is not there.
std::string doubt_of_lock(const std::string& directory, milliseconds lease_time);

}  // namespace pen::service
