#pragma once
/// Opens a file as root by a name that nobody but root can lead elsewhere.
///
/// Use:     PEN_TRY_ASSIGN(auto file, open_roots_file("/etc/penstock/sasl_passwd.lmdb"));
///          if (!file) …                          // others choose what is there: not as root
/// Rule:    every directory on the way is root's, and nobody else may write it; in one that everybody may write and has
///          the sticky bit, only what belongs to root is followed. Links are followed by the same rule, at most
///          kMostLinks. The file is a regular one.
/// Errors:  errno; EACCES: not a regular file.
/// Blocks:  as long as the file system does. Thread: any.
#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::service {

inline constexpr int kMostLinks = 20;

/// For reading. path: absolute. nullopt: somebody else could have put it there.
Result<std::optional<Fd>> open_roots_file(const std::string& path);

}  // namespace pen::service
