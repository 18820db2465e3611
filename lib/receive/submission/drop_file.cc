#include "lib/receive/submission/drop_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/file_io.h"

namespace pen::submission {
namespace {

// The mail system is another account than the submitter: it reads as "others", and the directory keeps real others
// out.
constexpr mode_t kUnfinished = 0644, kFinished = 0744;
// Existing ids mean that the clock was set back, or an attack.
constexpr int kTries = 20;

}  // namespace

Result<std::string> read_exactly(int fd, std::uint64_t at, std::size_t size) {
  PEN_TRY_ASSIGN(std::string out, read_at(fd, at, size, "read"));
  if (out.size() < size) return fail(FormatError::damaged, "shorter than it was");
  return out;
}

Result<std::unique_ptr<DropWriter>> DropWriter::create(const std::string& directory, Submission submission,
                                                       const std::function<std::string()>& next_id, Before before) {
  std::unique_ptr<DropWriter> w(new DropWriter(std::move(before)));
  for (int tries = 0; w->fd_ < 0; ++tries) {
    submission.queue_id = next_id();
    const std::string path = directory + "/" + submission.queue_id;
    w->step(Step::create);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUnfinished);
    if (fd < 0) {
      if (errno == EEXIST && tries < kTries) continue;
      return fail_errno(path);
    }
    w->step(Step::lock);
    struct stat st{};
    if (::flock(fd, LOCK_EX) != 0 || ::fstat(fd, &st) != 0) {
      const int error = errno;
      ::unlink(path.c_str());
      ::close(fd);
      return fail_errno(path, error);
    }
    if (st.st_nlink == 0) {  // pickup saw the file before it was locked, and took it for an abandoned one
      ::close(fd);
      if (tries < kTries) continue;
      return fail_errno(path, EAGAIN);
    }
    w->fd_ = fd;
    w->path_ = path;
    w->queue_id_ = submission.queue_id;
  }
  w->step(Step::head);
  const std::string bytes = head(submission);
  w->sum_.add(bytes);
  PEN_TRY(w->put(bytes));
  return w;
}

DropWriter::~DropWriter() {
  if (fd_ < 0) return;
  if (!finished_) ::unlink(path_.c_str());
  ::close(fd_);
}

Result<void> DropWriter::put(std::string_view bytes) {
  PEN_TRY(write_all(fd_, bytes, "write " + path_));
  return {};
}

Result<void> DropWriter::append(std::string_view content) {
  step(Step::content);
  sum_.add(content);
  content_size_ += content.size();
  return put(content);
}

Result<void> DropWriter::finish() {
  PEN_CHECK(!finished_);
  step(Step::trailer);
  PEN_TRY(put(trailer(content_size_, sum_)));
  step(Step::mark);
  if (::fchmod(fd_, kFinished) != 0) return fail_errno(path_);
  step(Step::sync);
  if (::fsync(fd_) != 0) return fail_errno("sync " + path_);
  finished_ = true;
  step(Step::unlock);
  const int fd = std::exchange(fd_, -1);
  ::close(fd);  // the data is synced: close() cannot lose any
  step(Step::done);
  return {};
}

DropReader::DropReader(DropReader&& other) noexcept
    : state_(other.state_),
      path_(std::move(other.path_)),
      why_(std::move(other.why_)),
      submission_(std::move(other.submission_)),
      trailer_(other.trailer_),
      sum_(std::move(other.sum_)),
      at_(other.at_),
      end_(other.end_),
      uid_(other.uid_),
      fd_(std::exchange(other.fd_, -1)) {}

DropReader::~DropReader() {
  if (fd_ >= 0) ::close(fd_);
}

Result<DropReader> DropReader::open(const std::string& directory, const std::string& name) {
  DropReader r;
  r.path_ = directory + "/" + name;
  r.fd_ = ::open(r.path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (r.fd_ < 0) {
    if (errno == ENOENT) {
      r.state_ = State::gone;
      return r;
    }
    if (errno == ELOOP || errno == ENXIO) {  // a symbolic link or a socket
      r.why_ = "not a regular file";
      return r;
    }
    return fail_errno(r.path_);
  }
  struct stat st{};
  if (::fstat(r.fd_, &st) != 0) return fail_errno(r.path_);
  if (!S_ISREG(st.st_mode)) {
    r.why_ = "not a regular file";
    return r;
  }
  if (::flock(r.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("lock " + r.path_);
    r.state_ = State::being_written;
    return r;
  }
  // Only the state now counts, when no process writes.
  if (::fstat(r.fd_, &st) != 0) return fail_errno(r.path_);
  if (st.st_nlink == 0) {
    r.state_ = State::gone;
  } else if ((st.st_mode & S_IXUSR) == 0) {
    r.state_ = State::abandoned;
  } else {
    r.uid_ = st.st_uid;
    r.end_ = static_cast<std::uint64_t>(st.st_size);
    if (auto done = r.examine(name); done) {
      r.state_ = State::complete;
    } else if (done.error().sys_errno() != 0) {
      return fail(std::move(done).error().within(r.path_));
    } else {
      if (done.error().is(FormatError::other_version) || done.error().is(FormatError::bad_envelope))
        r.state_ = State::foreign;
      r.why_ = done.error().message();
    }
  }
  return r;
}

Result<void> DropReader::examine(const std::string& name) {
  if (end_ < kPrefixSize + kTrailerSize) return fail(FormatError::damaged, "too short");
  PEN_TRY_ASSIGN(const std::string prefix, read_exactly(fd_, 0, kPrefixSize));
  PEN_TRY_ASSIGN(const std::size_t size, head_size(prefix));
  if (end_ < size + kTrailerSize) return fail(FormatError::damaged, "too short");
  PEN_TRY_ASSIGN(const std::string bytes, read_exactly(fd_, 0, size));
  PEN_TRY_ASSIGN(const std::string end, read_exactly(fd_, end_ - kTrailerSize, kTrailerSize));
  PEN_TRY_ASSIGN(trailer_, parse_trailer(end));
  end_ -= kTrailerSize;
  at_ = size;
  if (trailer_.content_size != end_ - at_) return fail(FormatError::damaged, "length");
  sum_.add(bytes);
  auto parsed = parse_head(bytes);
  if (!parsed) {
    PEN_TRY(read_all());  // decides which: damaged, or a form that we do not know
    return std::unexpected(std::move(parsed).error());
  }
  submission_ = *std::move(parsed);
  if (submission_.queue_id != name)
    return fail(FormatError::damaged, "it is " + submission_.queue_id + " by its content");
  return {};
}

Result<void> DropReader::read_all() {
  constexpr std::size_t kPiece = 64 * 1024;
  for (;;) {
    PEN_TRY_ASSIGN(const std::string piece, next(kPiece));
    if (piece.empty()) return {};
  }
}

Result<std::string> DropReader::read(std::size_t most) {
  PEN_CHECK(state_ == State::complete);
  return next(most);
}

Result<std::string> DropReader::next(std::size_t most) {
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(most, end_ - at_));
  if (want == 0) {
    if (!sum_fits(trailer_, sum_)) return fail(FormatError::damaged, "checksum");
    return std::string();
  }
  PEN_TRY_ASSIGN(std::string piece, read_exactly(fd_, at_, want));
  sum_.add(piece);
  at_ += want;
  return piece;
}

Result<void> DropReader::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return fail_errno("remove " + path_);
  return {};
}

Result<DropRemoved> remove_drop(const std::string& directory, const std::string& name) {
  using State = DropReader::State;
  PEN_TRY_ASSIGN(auto file, DropReader::open(directory, name));
  switch (file.state()) {
    case State::gone:
    case State::abandoned:
      return DropRemoved::gone;
    case State::being_written:
      return DropRemoved::busy;
    case State::complete:
    case State::damaged:
    case State::foreign:
      break;
  }
  PEN_TRY(file.remove());
  return DropRemoved::yes;
}

}  // namespace pen::submission
