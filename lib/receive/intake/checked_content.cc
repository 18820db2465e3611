#include "lib/receive/intake/checked_content.h"

namespace pen::intake {

/// Writes lines that are separated by "\n".
void CheckedContent::put(std::string_view lines, bool ends) {
  for (;;) {
    const auto lf = lines.find('\n');
    out(lines.substr(0, lf));
    if (lf == std::string_view::npos) break;
    out_end();
    lines.remove_prefix(lf + 1);
  }
  if (ends) out_end();
}

void CheckedContent::put_before() {
  std::string_view rest = before_;
  while (!rest.empty()) {
    const auto end = rest.find("\r\n");
    out(rest.substr(0, end));
    out_end();
    rest.remove_prefix(end + 2);
  }
  before_.clear();
}

void CheckedContent::field(Header header, std::string_view text, bool ends) {
  text_ = text;
  bool keep = true;
  if (checks_ != nullptr) {
    checks_->strict_field(text);
    keep = checks_->field(header, text_, before_);
    checked();
    put_before();
  }
  const bool replaced = checks_ != nullptr && text_ != text;
  if (header == Header::message) keep = message_field(text, text_, keep, ends || replaced);
  dropping_ = !keep || replaced;  // for the rest of the field
  if (keep) put(text_, ends || replaced);
}

void CheckedContent::more_field(Header, std::string_view text, bool ends) {
  if (checks_ != nullptr) {
    checks_->strict_more(text);
    checked();
  }
  if (!dropping_) put(text, ends);
}

void CheckedContent::end_of_header(Header header, bool separator) {
  dropping_ = false;
  if (checks_ != nullptr) {
    checks_->strict_header_end();
    checked();
  }
  header_ended(header, separator);
  if (separator) out_end();
}

void CheckedContent::body(std::string_view text, bool ends) {
  if (checks_ != nullptr && checks_->watches_body()) {
    checks_->strict_body(text);
    checked();
  }
  if (checks_ == nullptr || !checks_->tables().walk.lines) {
    put(text, ends);
    return;
  }
  text_ = text;
  const bool keep = checks_->body(text_, walker_.body_offset(), before_);
  checked();
  if (!before_.empty()) {
    if (line_kept_) out_end();  // ends a line that is too long to be checked whole
    put_before();
    line_kept_ = false;
  }
  if (keep && !(text_.empty() && line_dropped_)) {
    out(text_);
    line_kept_ = true;
  } else {
    line_dropped_ = true;
  }
  if (!ends) return;
  if (line_kept_) out_end();
  line_kept_ = line_dropped_ = false;
}

}  // namespace pen::intake
