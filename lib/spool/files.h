#pragma once
/// What the spool asks of its directory: a handful of calls on numbered files. So that crash tests can stand in for
/// the disk.
///
/// Use:     auto files = open_directory("/var/spool/penstock/bodies");   // the real one
/// Thread:  one (the spool's). The receivers write and sync through the descriptors they were given, not through this.
/// Errors:  errno values. no_space is ENOSPC or EDQUOT.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/spool/pool.h"

namespace pen::spool {

class Files {
 public:
  virtual ~Files() = default;

  /// Files of earlier uses.
  virtual Result<std::vector<FileNumber>> list() = 0;
  /// A new, empty file, to read and write. Its name may not survive a power cut before sync_names().
  virtual Result<Fd> create(FileNumber file) = 0;
  /// What was created and removed so far outlives a power cut on return.
  virtual Result<void> sync_names() = 0;
  /// Never through a symbolic link. `to_write`: EMLINK for what is no regular file or has other names as well, since
  /// what is written would show there; to read, a second name (of a backup) does no harm.
  virtual Result<Fd> open(FileNumber file, bool to_write) = 0;
  /// Takes the name away; whoever has the file open keeps it.
  virtual Result<void> remove(FileNumber file) = 0;
  virtual Result<std::uint64_t> size(int fd) = 0;
  /// Blocks for the first `size` bytes; the file is at least that long afterwards.
  virtual Result<void> reserve(int fd, std::uint64_t size) = 0;
  /// All bytes or an error. Not durable: a receiver's sync covers it.
  virtual Result<void> write(int fd, std::string_view bytes, std::uint64_t offset) = 0;
  /// At most `size` bytes; fewer at the end of the file.
  virtual Result<std::string> read(int fd, std::size_t size, std::uint64_t offset) = 0;
  /// Takes the exclusive flock of the descriptor's open file description. False: another description has it.
  virtual Result<bool> lock(int fd) = 0;
  /// Takes the shared one, in place of the exclusive one if the description has that. False: another description has
  /// the exclusive one.
  virtual Result<bool> share(int fd) = 0;
  /// Gives the description's flock back.
  virtual Result<void> unlock(int fd) = 0;
  /// Bytes that a file may still take on this disk.
  virtual Result<std::uint64_t> free_bytes() = 0;
  /// What messages call the file.
  virtual std::string name(FileNumber file) const = 0;
};

/// The directory is made if it is missing, and locked against a second spool in it.
Result<std::unique_ptr<Files>> open_directory(const std::string& directory);

/// The number of the file with this name (without its directory); nullopt: it is no file of a spool.
std::optional<FileNumber> number_of(std::string_view name);

/// For implementations and tools: pread() and pwrite() of everything.
Result<void> write_all(int fd, std::string_view bytes, std::uint64_t offset);
Result<std::string> read_some(int fd, std::size_t size, std::uint64_t offset);

}  // namespace pen::spool
