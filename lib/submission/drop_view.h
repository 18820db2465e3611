#pragma once
/// A file of maildrop, or of corrupt, looked at by people: as much of it as can be read, whatever became of the rest.
///
/// Use:     auto view = DropView::open(fd, DropView::Found::in_maildrop);
///          view->submission(); view->read(0, view->content_size()); view->fault()
/// Reads only: takes no lock and changes nothing; DropReader is for whoever takes the message.
/// Errors:  errno; not_ours, other_version: nothing in it can be told apart.
/// Thread:  one at a time. Blocks.
#include <cstdint>
#include <optional>
#include <string>

#include "lib/submission/format.h"

namespace pen::submission {

class DropView {
 public:
  /// Where the file was found. Only of one in maildrop the mode tells whether its writer has finished: a copy need not
  /// have it.
  enum class Found : std::uint8_t { in_maildrop, elsewhere };
  enum class Check : std::uint8_t {
    all,   // the content is read through for its checksum
    ends,  // what stands before and after the content
  };
  /// The descriptor, of a regular file, must outlive the view.
  static Result<DropView> open(int fd, Found where, Check check = Check::all);

  /// nullopt: the envelope cannot be read.
  const std::optional<Submission>& submission() const { return submission_; }
  /// What is not as a writer that finished leaves it; empty: nothing.
  const std::string& fault() const { return fault_; }
  std::uint64_t content_size() const { return content_end_ - content_begin_; }
  /// Bytes of the content, as many as were asked for at most; empty: its end.
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
