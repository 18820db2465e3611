#pragma once
/// One file of $queue_directory/maildrop: pendrop writes it, pickup takes it. Neither needs the other to run.
///
/// Writer:  create() makes the file under its final name, the queue id, and holds flock(LOCK_EX) on it; append()
///          writes the content; finish() writes the trailer, sets S_IXUSR in the mode, syncs, and only then releases
///          the lock. Destroying an unfinished writer removes the file.
/// Reader:  open() takes the lock or leaves the file alone. With the lock held: S_IXUSR and a correct checksum make
///          the file a message; S_IXUSR with anything wrong makes it damaged; without S_IXUSR its writer died. A
///          complete file in an unknown form is from another version, before or after an upgrade.
/// Crash:   docs/submission.md. A name is never reused (queue ids), and nothing is renamed: one fsync() of a new file
///          makes its name durable too.
/// Errors:  errno of the file calls, FormatError.
/// Thread:  one at a time. Everything blocks.
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/receive/submission/format.h"

namespace pen::submission {

/// The system call that a writer is about to make: for tests that end the process there.
enum class Step { create, lock, head, content, trailer, mark, sync, unlock, done };
using Before = std::function<void(Step)>;

class DropWriter {
 public:
  /// Gives the submission the next unused id. The directory must exist. The process's umask must let others read
  /// (022), because the mail system is another account.
  static Result<std::unique_ptr<DropWriter>> create(const std::string& directory, Submission submission,
                                                    const std::function<std::string()>& next_id, Before before = {});
  /// Removes the file if it is unfinished.
  ~DropWriter();
  DropWriter(const DropWriter&) = delete;
  DropWriter& operator=(const DropWriter&) = delete;

  const std::string& path() const { return path_; }
  const std::string& queue_id() const { return queue_id_; }
  std::uint64_t content_size() const { return content_size_; }
  Result<void> append(std::string_view content);
  /// Success: the message is on stable storage and will be taken. Call it once.
  Result<void> finish();

 private:
  DropWriter(Before before) : before_(std::move(before)) {}
  void step(Step s) const {
    if (before_) before_(s);
  }
  Result<void> put(std::string_view bytes);
  Before before_;
  std::string path_, queue_id_;
  Sum sum_;
  std::uint64_t content_size_ = 0;
  int fd_ = -1;
  bool finished_ = false;
};

/// Reads exactly this many bytes of a file. Errors: errno; damaged if the file is shorter.
Result<std::string> read_exactly(int fd, std::uint64_t at, std::size_t size);

class DropReader {
 public:
  enum class State {
    complete,
    being_written,  // another process holds the lock
    abandoned,      // the writer died before it promised anything
    damaged,        // why() has the reason
    foreign,        // of another version of the suite, which may take it; see why()
    gone,
  };
  /// Opens directory/name. Errors: it cannot be opened or locked.
  static Result<DropReader> open(const std::string& directory, const std::string& name);
  ~DropReader();
  DropReader(DropReader&& other) noexcept;
  DropReader& operator=(DropReader&&) = delete;

  State state() const { return state_; }
  const std::string& why() const { return why_; }
  /// Valid when complete.
  const Submission& submission() const { return submission_; }
  Submission take_submission() { return std::move(submission_); }
  uid_t uid() const { return uid_; }
  std::uint64_t content_size() const { return trailer_.content_size; }
  /// The next piece of content, at most `most` bytes; empty: the content has ended, and the checksum is right. Errors:
  /// damaged, errno.
  Result<std::string> read(std::size_t most);
  /// Removes the name; the lock ends with this object.
  Result<void> remove();

 private:
  DropReader() = default;
  Result<void> examine(const std::string& name);
  Result<void> read_all();
  Result<std::string> next(std::size_t most);
  State state_ = State::damaged;
  std::string path_, why_;
  Submission submission_;
  Trailer trailer_;
  Sum sum_;
  std::uint64_t at_ = 0, end_ = 0;
  uid_t uid_ = 0;
  int fd_ = -1;
};

enum class DropRemoved : std::uint8_t {
  yes,
  gone,  // it is not there, or its writer died, which pickup settles
  busy,  // somebody writes it, or takes it into the queue
};
/// Removes a file that nobody works on.
Result<DropRemoved> remove_drop(const std::string& directory, const std::string& name);

}  // namespace pen::submission
