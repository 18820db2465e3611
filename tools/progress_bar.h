#pragma once
/// How far a long order is: a bar that is drawn over itself on a terminal, and nothing where standard error is none.
///
/// Use:     ProgressBar bar("Deleting"); bar.show(segments, of, messages); …; bar.clear();
///          ProgressBar bar("Making t.lmdb", ProgressBar::patient("entry", "entries"));    // for work that is mostly
///          short
#include <cstdint>
#include <string>

#include "lib/base/time.h"

namespace pen::tools {

/// What a bar counts, and how often it is drawn.
struct BarForm {
  std::string one = "message", more = "messages";  // what is counted
  SteadyTime::duration after{0};                   // nothing is drawn before
  SteadyTime::duration every{0};                   // nor more often
};

class ProgressBar {
 public:
  /// For whoever calls show() again and again in a loop: first after two seconds, then four times a second.
  static BarForm patient(std::string one, std::string more) {
    return {std::move(one), std::move(more), seconds(2), milliseconds(250)};
  }
  explicit ProgressBar(std::string what) : ProgressBar(std::move(what), BarForm()) {}
  ProgressBar(std::string what, BarForm form, const Clock& clock = system_clock());
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// done of total: parts of the work; count: what was done to so many messages.
  void show(std::uint64_t done, std::uint64_t total, std::uint64_t count);
  void clear();
  /// What show() writes. Pure.
  static std::string line(const std::string& what, std::uint64_t done, std::uint64_t total, std::uint64_t count,
                          const BarForm& form = BarForm());

 private:
  std::string what_;
  BarForm form_;
  const Clock& clock_;
  SteadyTime next_;  // not drawn before
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace pen::tools
