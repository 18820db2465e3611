#pragma once
/// Events that wait for web servers, on disk: lines appended to segments, and how far each server has got.
///
/// Use:     auto log = Backlog::open(directory, limit);   log->append(lines);
///          const auto batch = log->read(position, 100, 1 << 20);     // whole lines; batch->size() bytes of the log
///          save_position(directory, url, position);   log->drop_before(oldest_position);
/// Form:    a position counts bytes from the first segment that ever was. A segment's name is "events-" and the
///          position of its first byte, 20 digits; a segment begins and ends between two lines. A server's position is
///          the file "hook-" and a digest of its URL.
/// Crash:   what append() returned survives the death of the process; a torn last line is cut off by open(). The disk
///          is not waited for: a power cut may cost the last seconds.
/// Errors:  errno.
/// Thread:  one.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::penevents {

class Backlog {
 public:
  /// Makes the directory. limit: the bytes that are kept for the slowest server, for the size of segments.
  static Result<Backlog> open(std::string directory, std::uint64_t limit);

  Result<void> append(std::string_view lines);
  /// What is appended from now on begins another one.
  void end_segment() { last_ = Fd(); }
  std::uint64_t begin() const { return segments_.empty() ? end_ : segments_.begin()->first; }
  std::uint64_t end() const { return end_; }
  /// At least one line, if there is one; none from a position at the end.
  Result<std::string> read(std::uint64_t position, std::size_t lines, std::size_t bytes) const;
  /// Where the segment after the one of this position begins: a border between two lines.
  std::uint64_t next_segment(std::uint64_t position) const;
  /// How many lines there are between two positions.
  Result<std::uint64_t> count_lines(std::uint64_t from, std::uint64_t to) const;
  Result<void> drop_before(std::uint64_t position);

 private:
  explicit Backlog(std::string directory, std::uint64_t limit);
  Result<void> recover();
  std::string path_of(std::uint64_t begin) const;
  Result<std::string> read_bytes(std::uint64_t position, std::size_t bytes) const;

  std::string directory_;
  std::uint64_t segment_size_;
  std::map<std::uint64_t, std::uint64_t> segments_;  // begin, size
  std::uint64_t end_ = 0;
  Fd last_;
};

/// nullopt: none is known, or the file is damaged.
std::optional<std::uint64_t> load_position(const std::string& directory, const std::string& url);
Result<void> save_position(const std::string& directory, const std::string& url, std::uint64_t position);
/// Removes the positions of all servers but these.
void forget_others(const std::string& directory, const std::vector<std::string>& urls);

}  // namespace pen::penevents
