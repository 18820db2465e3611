#pragma once
/// Copies files and trees for penstock snapshot and restore, and makes them durable.
///
/// Use:     PEN_TRY_ASSIGN(const Copied copied, copy_tree(from, to, {.skip = …}));  PEN_TRY(sync_tree(to));
/// Copied:  directories, files and symbolic links with mode, times of files, and (root) owner. Sockets, FIFOs and
///          devices are passed over. A file that vanishes meanwhile is passed over: it was not there.
/// Rights:  nothing is found by more than one name, and no link is followed (lib/base/folder.h). What is in a directory
///          of another account's than root's, and all below it, root reads with that account's rights: a user who can
///          rename and link there leads it to nothing that the account could not read. What cannot be read so is left
///          out, and reported. What is written belongs to root until it is whole.
/// Errors:  errno, with the name.
/// Thread:  the only one of the process. Blocks.
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/folder.h"
#include "lib/base/result.h"

namespace pen::tools {

struct CopyOptions {
  /// Whether an entry is left out; `inside` is relative to the top.
  std::function<bool(const std::string& inside, const struct stat& st)> skip;
  /// Copies an entry of `from` into `to` in another way. true: it did.
  std::function<Result<bool>(const Folder& from, const std::string& name, const Folder& to)> instead;
};
struct Copied {
  std::uint64_t bytes = 0;
  std::vector<std::string> left_out;  // what could not be read, with the reason
};
/// What is in `from`, into `to`, which gets its mode and owner.
Result<Copied> copy_tree(const Folder& from, const Folder& to, const CopyOptions& options = {});
/// A file into one that does not exist, `as`; holes stay holes. Returns its bytes.
Result<std::uint64_t> copy_file(const Folder& from, const std::string& name, const Folder& to, const std::string& as);
/// Every file and directory below is on stable storage afterwards.
Result<void> sync_tree(const Folder& directory);
/// Gives everything below to an account for good, synced, the directory itself too, what is below first. Nothing for
/// anybody but root.
Result<void> give_tree(const Folder& directory, uid_t uid, gid_t gid);
/// Writes a whole file in one step: it is there, synced, or not.
Result<void> write_file(const Folder& directory, const std::string& name, const std::string& text);
/// The folder that a path is in, made where it is missing, and the path's last name in it.
struct CopyTarget {
  Folder parent;
  std::string name;
};
Result<CopyTarget> target_of(const std::string& path);
/// Refuses a directory in which somebody else than root or ourselves could put another in a name's place while root
/// works below it. Nothing for anybody but root.
Result<void> expect_ours(const Folder& directory);

}  // namespace pen::tools
