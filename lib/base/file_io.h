#pragma once
/// Files read and written by descriptor, whole, whatever signals come between; and names that stay.
///
/// Use:     PEN_TRY(write_all(fd.get(), text, path));
///          PEN_TRY_ASSIGN(const std::string piece, read_at(fd.get(), offset, 65536, path));   // "": the end
/// Errors:  errno, with `what` before it.
/// Thread:  any. They may wait for the disk.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace pen {

Result<void> write_all(int fd, std::string_view bytes, std::string_view what);
/// From an offset on; the descriptor's own position stays.
Result<void> write_all_at(int fd, std::string_view bytes, std::uint64_t offset, std::string_view what);

/// So many bytes from an offset on; fewer only where the file ends.
Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t size, std::string_view what);
/// The same into memory that is there; how many they are.
Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<char> into, std::string_view what);

/// Names that were made in a directory, or taken away, are on stable storage.
Result<void> sync_directory(const std::string& path);

}  // namespace pen
