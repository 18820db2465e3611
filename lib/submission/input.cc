#include "lib/submission/input.h"

namespace pen::submission {
namespace {

constexpr std::string_view kFrom = "From ", kQuotedFrom = ">From ";

bool starts_or_continues(std::string_view start, std::string_view word) {
  return start.size() < word.size() ? word.starts_with(start) : start.starts_with(word);
}

}  // namespace

/// Whether more text may make this a line of one dot or a separator.
bool InputFilter::may_be_special(std::string_view start) const {
  if (options_.dot_ends && (start == "." || start == ".\r")) return true;
  return leading_ && (starts_or_continues(start, kFrom) || starts_or_continues(start, kQuotedFrom));
}

void InputFilter::feed(std::string_view in, std::string& out) {
  while (!in.empty() && state_ != State::done) {
    if (state_ == State::line || state_ == State::skipped_line) {
      const auto lf = in.find('\n');
      const auto size = lf == std::string_view::npos ? in.size() : lf + 1;
      if (state_ == State::line) out += in.substr(0, size);
      if (lf != std::string_view::npos) state_ = State::line_start;
      in.remove_prefix(size);
      continue;
    }
    const char c = in.front();
    if (c == '\n' && options_.dot_ends && (start_ == "." || start_ == ".\r")) {
      start_.clear();
      state_ = State::done;
      return;
    }
    start_ += c;
    in.remove_prefix(1);
    if (c != '\n' && may_be_special(start_)) {
      if (leading_ && (start_ == kFrom || start_ == kQuotedFrom)) {
        start_.clear();
        state_ = State::skipped_line;
      }
      continue;
    }
    leading_ = false;
    out += start_;
    start_.clear();
    state_ = c == '\n' ? State::line_start : State::line;
  }
}

void InputFilter::finish(std::string& out) {
  if (state_ == State::done) return;
  // A last line without end: a lone dot ends the message here too.
  if (!(options_.dot_ends && (start_ == "." || start_ == ".\r"))) out += start_;
  start_.clear();
  state_ = State::done;
}

}  // namespace pen::submission
