#include "tools/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace pen::tools {

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) != 0) {}

std::string ProgressBar::line(const std::string& what, std::uint64_t done, std::uint64_t total,
                              std::uint64_t count) {
  constexpr std::uint64_t kWidth = 30;
  done = std::min(done, total);
  const std::uint64_t parts = total == 0 ? 0 : done * kWidth / total;
  return fmt::format("{}: [{}{}] {:3}%  {} message{}", what, std::string(parts, '#'),
                     std::string(kWidth - parts, '.'), total == 0 ? 0 : done * 100 / total, count,
                     count == 1 ? "" : "s");
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total, std::uint64_t count) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r%s\033[K", line(what_, done, total, count).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace pen::tools
