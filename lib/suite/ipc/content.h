#pragma once
/// The content of a stored message as it comes with a job or a report: in the frame when it is small, else in a file.
///
/// Use:     auto content = take_content(job.inline_body, received->fds, job.body_offset, job.body.size);
///          if (content->in_memory()) … content->memory() …
///          else … content->read(at, buffer) …                     // blocks: on a thread of the pool
/// Owns:    the bytes, or the descriptor; copies share them.
/// Thread:  any; what is there never changes.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::ipc {

class Content {
 public:
  Content() = default;  // none: of size 0, in memory
  static Content in_memory(std::string bytes);
  /// `size` bytes of the file from offset on.
  static Content in_file(Fd fd, std::uint64_t offset, std::uint64_t size);

  std::uint64_t size() const { return size_; }
  bool in_memory() const { return file_ == nullptr; }
  /// The bytes; none when they are in a file.
  std::string_view memory() const { return bytes_ ? std::string_view(*bytes_) : std::string_view(); }
  /// For content in a file that may be used again: called after each read of it, with the file's descriptor; what was
  /// read counts only when it returns no error. Any thread.
  using Check = std::function<Result<void>(int)>;
  void check_reads(Check check) { check_ = std::move(check); }
  /// The file's descriptor; -1 for content in memory.
  int descriptor() const { return file_ ? file_->get() : -1; }
  /// Fills `into` with the bytes from `at` on. Errors: ENODATA when there are not so many; errno of pread; the check's.
  Result<void> read(std::uint64_t at, std::span<char> into) const;

 private:
  std::shared_ptr<const std::string> bytes_;
  std::shared_ptr<const Fd> file_;
  std::uint64_t offset_ = 0, size_ = 0;
  Check check_;
};

/// What came in one frame: exactly `size` bytes in it, or one descriptor (which is taken) and none. Error: EBADMSG.
Result<Content> take_content(std::string_view inline_body, std::span<Fd> fds, std::uint64_t offset, std::uint64_t size);

}  // namespace pen::ipc
