#pragma once
/// A file of maildrop, or of corrupt, for people to look at: as much of it as can be read, whatever is wrong with the
/// rest.
///
/// Use:     auto view = DropView::open(fd, DropView::Found::in_maildrop);
///          view->submission(); view->read(0, view->content_size()); view->fault()
/// Reads only: takes no lock and changes nothing. A program that takes the message uses DropReader.
/// Errors:  errno; not_ours, other_version: nothing in the file can be interpreted.
/// Thread:  one at a time. Blocks.
#include <cstdint>
#include <optional>
#include <string>

#include "lib/receive/submission/format.h"

namespace pen::submission {

class DropView {
 public:
  /// Where the file was found. Only in maildrop does the mode say whether the writer has finished: a copy may have
  /// another.
  enum class Found : std::uint8_t { in_maildrop, elsewhere };
  enum class Check : std::uint8_t {
    all,   // reads the content to check its checksum
    ends,  // the parts before and after the content
  };
  /// fd must be of a regular file and must outlive the view.
  static Result<DropView> open(int fd, Found where, Check check = Check::all);

  /// nullopt: the envelope cannot be read.
  const std::optional<Submission>& submission() const { return submission_; }
  /// A deviation from what a finished writer leaves; empty: none.
  const std::string& fault() const { return fault_; }
  std::uint64_t content_size() const { return content_end_ - content_begin_; }
  /// Bytes of the content, at most `most`; empty: its end.
  Result<std::string> read(std::uint64_t from, std::size_t most) const;

 private:
  DropView() = default;
  Result<void> verify(const Trailer& trailer) const;
  int fd_ = -1;
  std::optional<Submission> submission_;
  std::string fault_;
  std::uint64_t content_begin_ = 0, content_end_ = 0;
};

}  // namespace pen::submission
