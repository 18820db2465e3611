#pragma once
/// The spool's view of its directory: a few calls on numbered files. Crash tests replace the disk here.
///
/// Use:     auto files = open_directory("/var/spool/penstock/bodies");   // the real one
/// Thread:  the spool's. Receivers write and sync through their descriptors, not through this.
/// Errors:  errno values. no_space is ENOSPC or EDQUOT.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/queue/spool/pool.h"

namespace pen::spool {

class Files {
 public:
  virtual ~Files() = default;

  /// The files of earlier uses.
  virtual Result<std::vector<FileNumber>> list() = 0;
  /// A new, empty file, to read and write. Its name may not survive a power cut before sync_names().
  virtual Result<Fd> create(FileNumber file) = 0;
  /// Makes all creations and removals so far durable before it returns.
  virtual Result<void> sync_names() = 0;
  /// Never follows a symbolic link. With `to_write`, EMLINK refuses anything that is not a regular file with a single
  /// name, because the written data would show under the other name. For reading, a second name (of a backup) does no
  /// harm.
  virtual Result<Fd> open(FileNumber file, bool to_write) = 0;
  /// Removes the name; a process that has the file open keeps it.
  virtual Result<void> remove(FileNumber file) = 0;
  virtual Result<std::uint64_t> size(int fd) = 0;
  /// Allocates blocks for the first `size` bytes; the file is at least that long afterwards.
  virtual Result<void> reserve(int fd, std::uint64_t size) = 0;
  /// Writes all bytes or fails. Not durable: a receiver's sync covers the data.
  virtual Result<void> write(int fd, std::string_view bytes, std::uint64_t offset) = 0;
  /// At most `size` bytes; fewer at the end of the file.
  virtual Result<std::string> read(int fd, std::size_t size, std::uint64_t offset) = 0;
  /// Whether this is the only open file description of the file: no process has another one, as a descriptor, mapped
  /// into memory, or under way in a socket. Errors: EINVAL and the like: this file system cannot tell.
  virtual Result<bool> only_here(int fd) = 0;
  /// The bytes from `from` up to `to` read as zeros from now on. Their blocks stay allocated.
  virtual Result<void> clear(int fd, std::uint64_t from, std::uint64_t to) = 0;
  /// The bytes that a file can still take on this disk.
  virtual Result<std::uint64_t> free_bytes() = 0;
  /// The file's name in messages to people.
  virtual std::string name(FileNumber file) const = 0;
};

/// Opens the directory, makes it if it is missing, and locks it against a second spool.
Result<std::unique_ptr<Files>> open_directory(const std::string& directory);

/// The number of the file with this name (without its directory); nullopt: not a file of a spool.
std::optional<FileNumber> number_of(std::string_view name);

}  // namespace pen::spool
