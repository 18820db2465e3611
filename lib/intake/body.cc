#include "lib/intake/body.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "lib/async/file.h"

namespace pen::intake {

Body::Problem Body::problem() const {
  if (problem_ != Problem::none) return problem_;
  switch (content_.problem()) {
    case ContentProblem::too_large:
      return Problem::too_large;
    case ContentProblem::too_many_hops:
      return Problem::too_many_hops;
    case ContentProblem::no_memory:
      return Problem::no_space;
    case ContentProblem::lookup_failed:
      return Problem::lookup_failed;
    case ContentProblem::refused:
      return Problem::refused;
    case ContentProblem::discarded:
      return Problem::discarded;
    case ContentProblem::none:
      break;
  }
  return Problem::none;
}

void BodyMemory::change(std::size_t from, std::size_t to) {
  used_ = used_ - from + to;
  read_limit_ = scarce() ? Body::kLeastDrain / 2 : 0;
}

std::string BodyMemory::spare() {
  if (scarce() || spares_.empty()) return {};
  std::string buffer = std::move(spares_.back());
  spares_.pop_back();
  return buffer;
}

void BodyMemory::keep_spare(std::string buffer) {
  if (scarce()) return spares_.clear();
  const bool fits = buffer.capacity() >= Body::kDrainAt && buffer.capacity() <= 2 * Body::kDrainAt;
  if (fits && spares_.size() < kSpares) spares_.push_back(std::move(buffer));
}

void Body::account() {
  const std::size_t now = content_.pending().capacity() + writing_;
  memory_.change(held_, now);
  held_ = now;
  if (memory_.headers_scarce() && content_.inspected() > kLeastHeader) content_.give_up();
  memory_.headers_ = memory_.headers_ - held_header_ + content_.inspected();
  held_header_ = content_.inspected();
}

bool Body::must_drain() {
  account();
  const std::size_t size = content_.pending().size();
  if (size >= kDrainAt) return true;
  return memory_.scarce() && size >= kLeastDrain && size > queue_.inline_limit();
}

async::Task<void> Body::write_out(async::Until until, bool sync) {
  const auto piece = std::make_shared<std::string>(content_.take(sync ? "" : memory_.spare()));
  if (problem() != Problem::none) co_return;  // the message will be refused: do not write it
  if (!lease_) {
    const std::uint64_t here = piece->size();
    LeaseAnswer answer = co_await queue_.lease(sync ? here : std::max(declared_, here), until);
    if (answer.outcome != Enqueued::ok) {
      problem_ = answer.outcome == Enqueued::no_space ? Problem::no_space : Problem::unavailable;
      co_return;
    }
    lease_ = std::move(answer.lease);
  }
  if (!lease_->valid()) {  // the next qmgr accepts nothing under this lease
    problem_ = Problem::unavailable;
    co_return;
  }
  // A separate descriptor, because the write may outlive this task and the lease.
  Fd own(::fcntl(lease_->fd(), F_DUPFD_CLOEXEC, 0));
  if (!own) {
    problem_ = Problem::write_failed;
    error_text_ = Error::from_errno(errno, "spool file").message();
    co_return;
  }
  const async::File file(pool_, std::move(own));
  const std::uint64_t offset = lease_->content_offset() + written_;
  written_ += piece->size();
  writing_ = piece->capacity();
  account();
  auto done = co_await file.pwrite(piece, offset);
  writing_ = 0;
  account();
  memory_.keep_spare(std::move(*piece));
  if (done && sync) done = co_await file.sync();
  if (!done) {
    const Error& e = done.error();
    const bool full = e.is_errno(ENOSPC) || e.is_errno(EDQUOT) || e.is_errno(EFBIG);
    problem_ = full ? Problem::no_space : Problem::write_failed;
    error_text_ = "spool file: " + e.message();
  }
}

async::Task<void> Body::drain(async::Until until) { co_await write_out(until, false); }

async::Task<void> Body::finish(async::Until until) {
  facts_ = content_.finish();
  if (problem() != Problem::none) co_return;
  if (lease_ || content_.pending().size() > queue_.inline_limit()) co_await write_out(until, true);
}

}  // namespace pen::intake
