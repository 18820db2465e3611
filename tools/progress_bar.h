#pragma once
/// How far a long order is: a bar that is drawn over itself on a terminal, and nothing where standard error is none.
///
/// Use:     ProgressBar bar("Deleting"); bar.show(segments, of, messages); …; bar.clear();
#include <cstdint>
#include <string>

namespace pen::tools {

class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// done of total: parts of the queue looked through; count: messages.
  void show(std::uint64_t done, std::uint64_t total, std::uint64_t count);
  void clear();
  /// What show() writes. Pure.
  static std::string line(const std::string& what, std::uint64_t done, std::uint64_t total,
                          std::uint64_t count);

 private:
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace pen::tools
