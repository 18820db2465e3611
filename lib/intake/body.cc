#include "lib/intake/body.h"

#include <fcntl.h>
#include <unistd.h>

namespace pen::intake {
namespace {

/// Writes all of it at the offset; an errno, 0 when done.
int write_at(int fd, std::string_view text, std::uint64_t offset) {
  while (!text.empty()) {
    const ssize_t n = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

int sync_data(int fd) {
  while (::fdatasync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

Body::Problem Body::problem() const {
  if (problem_ != Problem::none) return problem_;
  switch (content_.problem()) {
    case ContentProblem::too_large:
      return Problem::too_large;
    case ContentProblem::too_many_hops:
      return Problem::too_many_hops;
    case ContentProblem::none:
      break;
  }
  return Problem::none;
}

async::Task<void> Body::write_out(async::Until until, bool sync) {
  std::string piece = content_.take();
  if (problem() != Problem::none) co_return;  // it will be refused: nothing is written for it
  if (!lease_) {
    LeaseAnswer answer = co_await queue_.lease(0, until);
    if (answer.outcome != Enqueued::ok) {
      problem_ = answer.outcome == Enqueued::no_space ? Problem::no_space : Problem::unavailable;
      co_return;
    }
    lease_ = std::move(answer.lease);
  }
  if (!lease_->valid()) {  // the next qmgr takes nothing under this lease
    problem_ = Problem::unavailable;
    co_return;
  }
  // A descriptor of its own: the write may outlive this task and the lease.
  const int fd = ::fcntl(lease_->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    problem_ = Problem::write_failed;
    error_text_ = Error::from_errno(errno, "spool file").message();
    co_return;
  }
  const std::uint64_t offset = lease_->content_offset() + written_;
  written_ += piece.size();
  auto work = [fd = std::make_shared<async::Fd>(fd), piece = std::move(piece), offset, sync] {
    const int error = write_at(fd->get(), piece, offset);
    return error != 0 || !sync ? error : sync_data(fd->get());
  };
  const int error = co_await pool_.run(std::move(work));
  if (error != 0) {
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    problem_ = full ? Problem::no_space : Problem::write_failed;
    error_text_ = Error::from_errno(error, "write to spool file").message();
  }
}

async::Task<void> Body::drain(async::Until until) { co_await write_out(until, false); }

async::Task<void> Body::finish(async::Until until) {
  facts_ = content_.finish();
  if (problem() != Problem::none) co_return;
  if (lease_ || content_.pending().size() > queue_.inline_limit()) co_await write_out(until, true);
}

}  // namespace pen::intake
