#pragma once
/// The form in which a command reads a message: LF line ends (or others), and the flags of pipe(8). Pure.
///
/// Use:     PipeForm form(rules);
///          form.head(mbox_from_line(…) + prepended_fields(…), out);     // lines with LF; once, first
///          form.feed(chunk_of_the_content, out) … form.finish(out);
/// Source:  Postfix pipe(8), flags ">", "." and "B", and eol=; docs/local-delivery.md.
#include <string>
#include <string_view>

#include "lib/base/codec.h"
#include "lib/send/mailbox/content.h"

namespace pen::mailbox {

struct PipeRules {
  bool quote_from = false;  // '>' before "From " at the start of a line of the content
  bool double_dots = false;
  bool empty_line_at_end = false;
  std::string eol = "\n";
  PEN_FIELDS(quote_from, double_dots, empty_line_at_end, eol)
};

class PipeForm {
 public:
  explicit PipeForm(PipeRules rules) : rules_(std::move(rules)) {}
  void head(std::string_view lines, std::string& out) { lines_out(lines, out); }
  /// Takes content as on the wire (CRLF), cut anywhere.
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

 private:
  void plain_out(std::string& out);
  void lines_out(std::string_view text, std::string& out);

  PipeRules rules_;
  LineEnds line_ends_;
  MboxQuoter quoter_;
  std::string plain_, quoted_;
  bool line_start_ = true;
};

}  // namespace pen::mailbox
