#pragma once
/// A directory that is held open, and what stands in it: for work in directories where somebody else may rename,
/// replace and link at any moment. Whatever is done there meets this directory and a name in it, and nothing that a
/// link leads to.
///
/// Use:     PEN_TRY_ASSIGN(const Folder queue, Folder::open("/var/spool/penstock"));   // as the caller names it
///          PEN_TRY_ASSIGN(const Folder log, queue.folder("log"));                     // ELOOP, ENOTDIR: a link
///          PEN_TRY_ASSIGN(const Fd file, log.file("segment-00000001"));
/// Names:   one word each: EINVAL for an empty one, "." and "..", and what holds a slash or NUL.
/// Errors:  errno, with the path by which the directory was opened.
/// Thread:  any, one at a time.
#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen {

class Folder {
 public:
  /// Opens a path and follows its links: the caller trusts the person who named it.
  static Result<Folder> open(const std::string& path);

  /// For messages: how it was opened, nothing that anything is done by.
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  int fd() const { return fd_.get(); }
  Result<struct stat> status() const;

  Result<Folder> folder(const std::string& name) const;
  /// The directory behind several names, "a/b/c"; the folder itself for "".
  Result<Folder> folder_below(const std::string& names) const;
  /// A new directory. EEXIST where the name is taken, whatever by.
  Result<Folder> make_folder(const std::string& name, mode_t mode) const;
  /// A regular file, for reading. Neither a device nor a pipe is waited for: EACCES.
  Result<Fd> file(const std::string& name) const;
  /// A new file, for writing. EEXIST as above.
  Result<Fd> make_file(const std::string& name, mode_t mode) const;
  /// What the name stands for, a link for itself; nullopt: nothing.
  Result<std::optional<struct stat>> look(const std::string& name) const;
  Result<std::string> link(const std::string& name) const;
  Result<void> make_link(const std::string& name, const std::string& target) const;
  /// All names but "." and "..", in the order of their bytes.
  Result<std::vector<std::string>> names() const;
  Result<void> rename(const std::string& from, const Folder& where, const std::string& to) const;
  /// The name of what is no directory. None is no error.
  Result<void> remove(const std::string& name) const;
  /// Whatever the name stands for, with all that is below it. None is no error.
  Result<void> remove_all(const std::string& name) const;
  /// Names that were made or taken away are on stable storage.
  Result<void> sync() const;

 private:
  Folder(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  Fd fd_;
};

}  // namespace pen
