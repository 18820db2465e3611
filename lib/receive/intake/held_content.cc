#include "lib/receive/intake/held_content.h"

#include <fcntl.h>

#include <algorithm>

namespace pen::intake {

HeldContent::HeldContent(async::HandlerPool& pool, const Body& body, std::uint64_t from)
    : body_(body), at_(std::min(from, body.facts().size)) {
  if (const auto* lease = body.lease()) file_.emplace(pool, Fd(::fcntl(lease->fd(), F_DUPFD_CLOEXEC, 0)));
}

async::Task<Result<std::string>> HeldContent::next(std::uint64_t most) {
  const auto want = static_cast<std::size_t>(std::min(most, left()));
  if (want == 0) co_return std::string();
  if (!file_) {
    const auto piece = body_.text().substr(static_cast<std::size_t>(at_), want);
    at_ += want;
    co_return std::string(piece);
  }
  auto piece = co_await file_->pread(want, body_.content_offset() + at_);
  if (!piece) co_return piece;
  if (piece->size() < want) co_return fail(HeldContentError::cut_short);
  at_ += want;
  co_return piece;
}

}  // namespace pen::intake
