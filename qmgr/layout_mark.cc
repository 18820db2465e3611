#include "qmgr/layout_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/file_io.h"
#include "qmgr/payload.h"

namespace pen::qmgr {
namespace {

constexpr const char* kFile = "/payload-layout";
constexpr std::string_view kWord = "layout ";

/// 0: there is no mark, or none that says anything.
unsigned read_mark(const std::string& directory) {
  const Fd fd(::open((directory + kFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  char bytes[32];
  const ssize_t n = fd ? ::read(fd.get(), bytes, sizeof bytes) : 0;
  const std::string_view text(bytes, n > 0 ? static_cast<std::size_t>(n) : 0);
  if (!text.starts_with(kWord)) return 0;
  unsigned layout = 0;
  std::from_chars(text.data() + kWord.size(), text.data() + text.size(), layout);
  return layout;
}

}  // namespace

LayoutMark::LayoutMark(std::string directory)
    : directory_(std::move(directory)), layout_(static_cast<std::uint8_t>(std::min(read_mark(directory_), 255U))) {}

Result<void> LayoutMark::note(std::uint8_t layout) {
  noted_ = true;
  if (layout <= layout_) return {};
  layout_ = layout;  // once: what cannot be written now is not tried at each message
  const std::string path = directory_ + kFile, next = path + ".new";
  const std::string text = std::string(kWord) + std::to_string(layout) + "\n";
  const Fd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno(path);
  PEN_TRY(write_all(fd.get(), text, path));
  if (::fsync(fd.get()) != 0 || ::rename(next.c_str(), path.c_str()) != 0) return fail_errno(path);
  return sync_directory(directory_);
}

Result<void> LayoutMark::forget() {
  if (noted_ || layout_ == 0) return {};
  layout_ = 0;
  if (::unlink((directory_ + kFile).c_str()) != 0 && errno != ENOENT) return fail_errno(directory_ + kFile);
  return {};
}

Result<void> check_layouts(const std::string& directory) {
  const unsigned newest = read_mark(directory);
  if (newest <= kNewestLayout) return {};
  return fail_errno("messages in " + directory + " may have layout " + std::to_string(newest) +
                        ", and this version reads up to " + std::to_string(unsigned{kNewestLayout}) +
                        ": it would put them on hold; let the version that wrote them deliver them, and start it once "
                        "more when the queue is empty",
                    EPROTONOSUPPORT);
}

}  // namespace pen::qmgr
