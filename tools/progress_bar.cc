#include "tools/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace pen::tools {

ProgressBar::ProgressBar(std::string what, BarForm form, const Clock& clock)
    : what_(std::move(what)),
      form_(std::move(form)),
      clock_(clock),
      next_(clock.now() + form_.after),
      terminal_(::isatty(STDERR_FILENO) != 0) {}

std::string ProgressBar::line(const std::string& what, std::uint64_t done, std::uint64_t total, std::uint64_t count,
                              const BarForm& form) {
  constexpr std::uint64_t kWidth = 30;
  done = std::min(done, total);
  const std::uint64_t parts = done * kWidth / total;
  return fmt::format("{}: [{}{}] {:3}%  {} {}", what, std::string(parts, '#'), std::string(kWidth - parts, '.'),
                     done * 100 / total, count, count == 1 ? form.one : form.more);
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total, std::uint64_t count) {
  if (!terminal_ || total == 0 || clock_.now() < next_) return;
  next_ = clock_.now() + form_.every;
  std::fprintf(stderr, "\r%s\033[K", line(what_, done, total, count, form_).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace pen::tools
