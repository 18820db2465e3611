#include "lib/send/mailbox/pipe_form.h"

namespace pen::mailbox {

void PipeForm::feed(std::string_view chunk, std::string& out) {
  plain_.clear();
  line_ends_.feed(chunk, plain_);
  plain_out(out);
}

void PipeForm::finish(std::string& out) {
  plain_.clear();
  line_ends_.finish(plain_);
  plain_out(out);
  if (rules_.quote_from) {
    quoted_.clear();
    quoter_.finish(quoted_);
    quoted_.pop_back();  // the empty line of an mbox, which is added below if it is wanted
    lines_out(quoted_, out);
  }
  if (rules_.empty_line_at_end) {
    if (!line_start_) lines_out("\n", out);
    lines_out("\n", out);
  }
}

void PipeForm::plain_out(std::string& out) {
  if (!rules_.quote_from) return lines_out(plain_, out);
  quoted_.clear();
  quoter_.feed(plain_, quoted_);
  lines_out(quoted_, out);
}

void PipeForm::lines_out(std::string_view text, std::string& out) {
  if (!rules_.double_dots && rules_.eol == "\n") {
    out += text;
    if (!text.empty()) line_start_ = text.back() == '\n';
    return;
  }
  while (!text.empty()) {
    if (line_start_ && rules_.double_dots && text.front() == '.') out += '.';
    const auto lf = text.find('\n');
    out += text.substr(0, lf);
    line_start_ = lf != std::string_view::npos;
    if (!line_start_) return;
    out += rules_.eol;
    text.remove_prefix(lf + 1);
  }
}

}  // namespace pen::mailbox
