#pragma once
/// Cuts sendmail's standard input down to the message: the dot at its end, mailbox separators before it.
///
/// Use:     InputFilter filter({.dot_ends = !i_option});
///          while (!filter.done() && (n = read(…))) filter.feed({buffer, n}, content);   // appends to content
///          filter.finish(content);                                                     // end of input
/// Rules:   with dot_ends, a line of one dot ends the message; the rest is not read. Lines "From …" and ">From …"
///          before the first other line are mailbox separators and are dropped.
/// Ends:    a line ends with LF. A CR before it is part of the end too: always, or if the first line of the input has
///          one (strict), or never. Where it is not, it is the line's last character: it comes out doubled, because
///          readers of the content take one CR off. Nothing else changes.
/// Split:   however the input is cut, the content is the same.
/// Source:  sendmail(1) of Postfix: -i, -oi; postconf(5), sendmail_fix_line_endings.
/// Bounds:  holds back at most one short line.
#include <optional>
#include <string>
#include <string_view>

namespace pen::submission {

class InputFilter {
 public:
  enum class CarriageReturn { always, strict, never };
  struct Options {
    bool dot_ends = true;
    CarriageReturn ends = CarriageReturn::always;
  };
  explicit InputFilter(Options options) : options_(options) {}

  void feed(std::string_view in, std::string& out);
  void finish(std::string& out);
  /// Whether the dot was seen.
  bool done() const { return state_ == State::done; }

 private:
  enum class State { line_start, line, skipped_line, done };
  bool may_be_special(std::string_view start) const;
  bool is_dot(std::string_view start) const;
  void end_line(bool cr);
  void pass(std::string_view in, std::string& out);
  Options options_;
  State state_ = State::line_start;
  std::string start_;       // the start of an undecided line
  bool leading_ = true;     // only separators were seen so far
  bool cr_before_ = false;  // the last byte of the input was a CR
  // Whether CRLF ends a line; not known before the first LF.
  std::optional<bool> crlf_ends_;
};

}  // namespace pen::submission
