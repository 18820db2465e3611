#pragma once
/// What comes on sendmail's standard input, cut down to the message: the end by a dot, mailbox separators before it.
///
/// Use:     InputFilter filter({.dot_ends = !i_option});
///          while (!filter.done() && (n = read(…))) filter.feed({buffer, n}, content);   // appends to content
///          filter.finish(content);                                                     // end of input
/// Rules:   a line of one dot ends the message when dot_ends (LF or CRLF after it); what follows is not read. Lines
///          "From …" and ">From …" before the first other line are mailbox separators: dropped. Nothing else changes.
/// Split:   any cutting of the input gives the same content.
/// Source:  sendmail(1) of Postfix: -i, -oi.
/// Bounds:  keeps at most one short line back.
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
  /// The dot was seen.
  bool done() const { return state_ == State::done; }

 private:
  enum class State { line_start, line, skipped_line, done };
  bool may_be_special(std::string_view start) const;
  Options options_;
  State state_ = State::line_start;
  std::string start_;    // of a line that is not decided
  bool leading_ = true;  // no other line than separators was seen
};

}  // namespace pen::submission
