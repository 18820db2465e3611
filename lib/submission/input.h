#pragma once
/// Cuts sendmail's standard input down to the message: the dot at its end, mailbox separators before it.
///
/// Use:     InputFilter filter({.dot_ends = !i_option});
///          while (!filter.done() && (n = read(…))) filter.feed({buffer, n}, content);   // appends to content
///          filter.finish(content);                                                     // end of input
/// Rules:   with dot_ends, a line of one dot (followed by LF or CRLF) ends the message; the rest is not read. Lines
///          "From …" and ">From …" before the first other line are mailbox separators and are dropped. Nothing else
///          changes.
/// Split:   however the input is cut, the content is the same.
/// Source:  sendmail(1) of Postfix: -i, -oi.
/// Bounds:  holds back at most one short line.
#include <string>
#include <string_view>

namespace pen::submission {

class InputFilter {
 public:
  struct Options {
    bool dot_ends = true;
  };
  explicit InputFilter(Options options) : options_(options) {}

  void feed(std::string_view in, std::string& out);
  void finish(std::string& out);
  /// Whether the dot was seen.
  bool done() const { return state_ == State::done; }

 private:
  enum class State { line_start, line, skipped_line, done };
  bool may_be_special(std::string_view start) const;
  Options options_;
  State state_ = State::line_start;
  std::string start_;    // the start of an undecided line
  bool leading_ = true;  // only separators were seen so far
};

}  // namespace pen::submission
