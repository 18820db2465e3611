#include "lib/receive/submission/input.h"

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

/// Whether this, before an LF or the end of the input, is a line of one dot.
bool InputFilter::is_dot(std::string_view start) const {
  if (!options_.dot_ends) return false;
  return start == "." || (start == ".\r" && crlf_ends_.value_or(options_.ends != CarriageReturn::never));
}

/// At an LF.
void InputFilter::end_line(bool cr) {
  if (!crlf_ends_) crlf_ends_ = options_.ends == CarriageReturn::strict ? cr : options_.ends == CarriageReturn::always;
}

/// Appends the end of a line, or a part of a line.
void InputFilter::pass(std::string_view in, std::string& out) {
  const bool ends = in.ends_with('\n');
  const bool cr = in.size() > 1 ? in[in.size() - 2] == '\r' : cr_before_;
  if (ends && cr && !*crlf_ends_) {
    out += in.substr(0, in.size() - 1);
    out += "\r\n";
  } else {
    out += in;
  }
}

void InputFilter::feed(std::string_view in, std::string& out) {
  while (!in.empty() && state_ != State::done) {
    if (state_ == State::line || state_ == State::skipped_line) {
      const auto lf = in.find('\n');
      const auto size = lf == std::string_view::npos ? in.size() : lf + 1;
      const std::string_view part = in.substr(0, size);
      if (lf != std::string_view::npos) end_line(size > 1 ? part[size - 2] == '\r' : cr_before_);
      if (state_ == State::line) pass(part, out);
      cr_before_ = part.back() == '\r';
      if (lf != std::string_view::npos) state_ = State::line_start;
      in.remove_prefix(size);
      continue;
    }
    const char c = in.front();
    if (c == '\n') end_line(start_.ends_with('\r'));
    if (c == '\n' && is_dot(start_)) {
      start_.clear();
      state_ = State::done;
      return;
    }
    start_ += c;
    in.remove_prefix(1);
    cr_before_ = c == '\r';
    if (c != '\n' && may_be_special(start_)) {
      if (leading_ && (start_ == kFrom || start_ == kQuotedFrom)) {
        start_.clear();
        state_ = State::skipped_line;
      }
      continue;
    }
    leading_ = false;
    pass(start_, out);
    start_.clear();
    state_ = c == '\n' ? State::line_start : State::line;
  }
}

void InputFilter::finish(std::string& out) {
  if (state_ == State::done) return;
  // A last line without end: a lone dot ends the message here too.
  if (!is_dot(start_)) out += start_;
  start_.clear();
  state_ = State::done;
}

}  // namespace pen::submission
