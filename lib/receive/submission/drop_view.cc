#include "lib/receive/submission/drop_view.h"

#include <sys/stat.h>

#include <algorithm>

#include "lib/receive/submission/drop_file.h"

namespace pen::submission {

Result<DropView> DropView::open(int fd, Found where, Check check) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("stat");
  if (!S_ISREG(st.st_mode)) return fail(FormatError::not_ours, "not a regular file");
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size < kPrefixSize) return fail(FormatError::not_ours, "too short");
  DropView view;
  view.fd_ = fd;
  PEN_TRY_ASSIGN(const std::string prefix, read_exactly(fd, 0, kPrefixSize));
  PEN_TRY_ASSIGN(const std::size_t head, head_size(prefix));
  view.content_begin_ = std::min<std::uint64_t>(head, size);
  view.content_end_ = size;
  std::string bytes;
  if (head <= size) {
    PEN_TRY_ASSIGN(bytes, read_exactly(fd, 0, head));
    if (auto parsed = parse_head(bytes))
      view.submission_ = *std::move(parsed);
    else
      view.fault_ = parsed.error().message();
  }
  if (size < head + kTrailerSize) {
    view.fault_ = "ends before its trailer";
    return view;
  }
  PEN_TRY_ASSIGN(const std::string end, read_exactly(fd, size - kTrailerSize, kTrailerSize));
  const auto trailer = parse_trailer(end);
  if (!trailer) {
    view.fault_ = "without a trailer: its submission did not end, or it is damaged";
    return view;
  }
  view.content_end_ = size - kTrailerSize;
  if (trailer->content_size != view.content_size()) {
    view.fault_ = "its length is not what its trailer says";
  } else if (check == Check::all) {
    if (auto right = view.verify(*trailer); !right) {
      if (right.error().sys_errno() != 0) return std::unexpected(std::move(right).error());
      view.fault_ = right.error().message();
    }
  }
  if (view.fault_.empty() && where == Found::in_maildrop && (st.st_mode & S_IXUSR) == 0)
    view.fault_ = "its submission did not end";
  return view;
}

Result<void> DropView::verify(const Trailer& trailer) const {
  constexpr std::uint64_t kPiece = 64 * 1024;
  Sum sum;
  for (std::uint64_t at = 0; at < content_end_; at += kPiece) {
    PEN_TRY_ASSIGN(const std::string piece, read_exactly(fd_, at, std::min(kPiece, content_end_ - at)));
    sum.add(piece);
  }
  if (!sum_fits(trailer, sum)) return fail(FormatError::damaged, "checksum");
  return {};
}

Result<std::string> DropView::read(std::uint64_t from, std::size_t most) const {
  const std::uint64_t begin = content_begin_ + std::min(from, content_size());
  return read_exactly(fd_, begin, std::min<std::uint64_t>(most, content_end_ - begin));
}

}  // namespace pen::submission
