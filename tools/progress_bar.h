#pragma once
/// Shows the progress of a long order: a bar that redraws itself on a terminal. It shows nothing if standard error is
/// no terminal.
///
/// Use:     ProgressBar bar("Deleting"); bar.show(segments, of, messages); …; bar.clear();
///          // for work that is mostly short:
///          ProgressBar bar("Making t.lmdb", ProgressBar::patient("entry", "entries"));
#include <cstdint>
#include <string>

#include "lib/base/time.h"

namespace pen::tools {

/// What a bar counts, and how often it is drawn.
struct BarForm {
  std::string one = "message", more = "messages";  // what is counted
  SteadyTime::duration after{0};                   // nothing is drawn before this time has passed
  SteadyTime::duration every{0};                   // the least time between two drawings
};

class ProgressBar {
 public:
  /// For show() calls in a tight loop: draws first after two seconds, then four times a second.
  static BarForm patient(std::string one, std::string more) {
    return {std::move(one), std::move(more), seconds(2), milliseconds(250)};
  }
  explicit ProgressBar(std::string what) : ProgressBar(std::move(what), BarForm()) {}
  ProgressBar(std::string what, BarForm form, const Clock& clock = system_clock());
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// done of total: parts of the work; count: messages processed. Nothing is drawn while the total is not known (0).
  void show(std::uint64_t done, std::uint64_t total, std::uint64_t count);
  void clear();
  /// The text that show() writes; total is not 0. Pure.
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
