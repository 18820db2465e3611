#pragma once
/// Copies files and trees for penstock snapshot and restore, and makes them durable.
///
/// Use:     PEN_TRY(copy_tree(from, to, {.skip = …}));  PEN_TRY(sync_tree(to));
/// Copied:  directories, files and symbolic links with mode, times of files, and (root) owner. Sockets, FIFOs and
///          devices are passed over. A file that vanishes meanwhile is passed over: it was not there.
/// Errors:  errno, with the name.
/// Thread:  any. Blocks.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"

namespace pen::tools {

struct CopyOptions {
  /// Whether a path is left out; `inside` is relative to the top.
  std::function<bool(const std::string& path, const std::string& inside)> skip;
  /// Copies one directory or file in another way. true: it did.
  std::function<Result<bool>(const std::string& from, const std::string& to)> instead;
};
/// `to` is made if it is missing. Returns the bytes copied.
Result<std::uint64_t> copy_tree(const std::string& from, const std::string& to, const CopyOptions& options = {});
/// A file into one that does not exist; holes stay holes. Returns its bytes.
Result<std::uint64_t> copy_file(const std::string& from, const std::string& to);
/// Every file and directory below is on stable storage afterwards.
Result<void> sync_tree(const std::string& directory);
/// Gives everything below to an account, the directory itself too.
Result<void> give_tree(const std::string& directory, uid_t uid, gid_t gid);
/// Writes a whole file in one step: it is there, synced, or not.
Result<void> write_file(const std::string& path, const std::string& text, mode_t mode = 0600);

}  // namespace pen::tools
