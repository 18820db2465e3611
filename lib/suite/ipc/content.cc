#include "lib/suite/ipc/content.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/file_io.h"

namespace pen::ipc {

Content Content::in_memory(std::string bytes) {
  Content content;
  content.size_ = bytes.size();
  content.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  return content;
}

Content Content::in_file(Fd fd, std::uint64_t offset, std::uint64_t size) {
  Content content;
  content.file_ = std::make_shared<const Fd>(std::move(fd));
  content.offset_ = offset;
  content.size_ = size;
  return content;
}

Result<void> Content::read(std::uint64_t at, std::span<char> into) const {
  if (at > size_ || into.size() > size_ - at) return fail_errno("read content", ENODATA);
  if (in_memory()) {
    std::ranges::copy(memory().substr(at, into.size()), into.begin());
    return {};
  }
  PEN_TRY_ASSIGN(const std::size_t got, read_at(file_->get(), offset_ + at, into, "read content"));
  if (got < into.size()) return fail_errno("read content", ENODATA);
  if (check_) return check_(file_->get());
  return {};
}

Result<Content> take_content(std::string_view inline_body, std::span<Fd> fds, std::uint64_t offset,
                             std::uint64_t size) {
  const bool whole = fds.empty() ? inline_body.size() == size : fds.size() == 1 && inline_body.empty();
  if (!whole)
    return fail_errno("content of " + std::to_string(inline_body.size()) + " bytes and " + std::to_string(fds.size()) +
                          " files announced as " + std::to_string(size) + " bytes",
                      EBADMSG);
  if (fds.empty()) return Content::in_memory(std::string(inline_body));
  return Content::in_file(std::move(fds[0]), offset, size);
}

}  // namespace pen::ipc
