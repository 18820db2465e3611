#pragma once
/// Reads a complete message before its commit, in pieces, for filters and checks that must see it before the client
/// gets its reply.
///
/// Use:     HeldContent content(pool, body);      // after body.end()
///          for (;;) { auto piece = co_await content.next();  if (!piece) …;  if (piece->empty()) break;  … }
/// Form:    as stored: our fields in front, CRLF lines, no dots doubled.
/// Errors:  of the spool file; HeldContentError::cut_short where it has become shorter.
/// Thread:  the loop's; a large body's file is read by the pool. The body must outlive it.
#include <optional>
#include <string>

#include "lib/base/async/file.h"
#include "lib/receive/intake/body.h"

namespace pen::intake {

enum class HeldContentError { cut_short = 1 };
inline std::string_view error_module(HeldContentError) { return "content"; }
inline std::string_view describe(HeldContentError) { return "shorter than it was"; }

class HeldContent {
 public:
  // Large, so that a piece costs little per byte.
  static constexpr std::uint64_t kPiece = 128 * 1024;

  /// from: bytes to skip.
  HeldContent(async::HandlerPool& pool, const Body& body, std::uint64_t from = 0);
  /// Bytes that are still to come.
  std::uint64_t left() const { return body_.facts().size - at_; }
  /// The next piece, of `most` bytes at most; empty: the end.
  async::Task<Result<std::string>> next(std::uint64_t most = kPiece);

 private:
  const Body& body_;
  std::optional<async::File> file_;  // a descriptor of its own: a read may outlive the task and the lease
  std::uint64_t at_ = 0;
};

}  // namespace pen::intake
