#include "smtpd/held_content.h"

#include <fcntl.h>

#include <algorithm>

namespace pen::smtpd {

HeldContent::HeldContent(async::HandlerPool& pool, const intake::Body& body) : body_(body) {
  if (const auto* lease = body.lease()) file_.emplace(pool, Fd(::fcntl(lease->fd(), F_DUPFD_CLOEXEC, 0)));
}

async::Task<Result<std::string>> HeldContent::next() {
  const std::uint64_t left = body_.facts().size - at_;
  const auto want = static_cast<std::size_t>(std::min(kPiece, left));
  if (want == 0) co_return std::string();
  if (!file_) {
    const auto piece = body_.text().substr(static_cast<std::size_t>(at_), want);
    at_ += want;
    co_return std::string(piece);
  }
  auto piece = co_await file_->pread(want, body_.lease()->content_offset() + at_);
  if (!piece) co_return piece;
  if (piece->size() < want) co_return fail(HeldContentError::cut_short);
  at_ += want;
  co_return piece;
}

}  // namespace pen::smtpd
