#include "lib/mail/returned/reader.h"

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/mail/mime.h"
#include "lib/mail/returned/decode.h"
#include "lib/mail/returned/delivery_status.h"
#include "lib/mail/returned/feedback.h"
#include "lib/mail/returned/fields.h"
#include "lib/mail/returned/plain_text.h"

namespace pen::returned {

Reader::Reader()
    : walker_(*this, {.mime = true, .lines = true, .max_field = 16384, .max_depth = 6}),
      scanner_({.replace_bare_cr = false}) {}

void Reader::feed(std::string_view piece) {
  if (!wants_more()) return;
  piece = piece.substr(0, static_cast<std::size_t>(kMostBytes - seen_));
  seen_ += piece.size();
  scanner_.feed(piece, walker_);
}

void Reader::keep(std::string& into, std::string_view text, bool ends, std::size_t most) {
  if (into.size() >= most) return;
  into += text.substr(0, most - into.size());
  if (ends) into += '\n';
}

void Reader::field(Header header, std::string_view text, bool /*ends*/) {
  if (done_) return;
  if (header == Header::inner) return keep(inner_header_, text, true, kMostText);
  const std::size_t size = mail::field_name_length(text);
  const std::string_view name = text.substr(0, size);
  const std::string_view value = size == 0 ? std::string_view() : text.substr(text.find(':', size) + 1);
  if (iequals(name, "Content-Type"))
    type_ = mail::mime_word(value);
  else if (iequals(name, "Content-Transfer-Encoding"))
    encoding_ = mail::mime_word(value);
  else if (header == Header::message && iequals(name, "X-Failed-Recipients") && failed_recipients_.empty())
    failed_recipients_ = clean(value, kMostText);
}

void Reader::end_of_header(Header header, bool /*separator*/) {
  if (header == Header::inner) done_ = true;  // all that we want of what came back is in its header
  if (done_) return;
  if (header == Header::message) top_type_ = type_;
  part_ = Part::other;
  line_starts_ = true;
  if (type_ == "message/delivery-status" || type_ == "message/global-delivery-status")
    part_ = Part::status;
  else if (type_ == "message/feedback-report")
    part_ = Part::feedback;
  else if (type_ == "text/rfc822-headers" || type_ == "message/global-headers")
    part_ = Part::header;
  else if ((type_.empty() || type_ == "text/plain") && text_.empty())
    part_ = Part::text;
  if (part_ == Part::status || part_ == Part::feedback) {
    if (report_kind_ != Part::other)
      part_ = Part::other;  // the first one counts
    else {
      report_kind_ = part_;
      report_encoding_ = encoding_;
    }
  }
  if (part_ == Part::text) text_encoding_ = encoding_;
  type_.clear();
  encoding_.clear();
}

void Reader::body(std::string_view text, bool ends) {
  if (done_) return;
  const bool starts = line_starts_;
  line_starts_ = ends;
  // The delimiter behind a part comes as a line of it. No field begins so.
  if (starts && text.starts_with("--") && part_ != Part::text) {
    if (part_ == Part::header) done_ = true;
    part_ = Part::other;
    return;
  }
  switch (part_) {
    case Part::other:
      break;
    case Part::text:
      keep(text_, text, ends, kMostText);
      // Nothing but text comes.
      if (text_.size() >= kMostText && !top_type_.starts_with("multipart/")) done_ = true;
      break;
    case Part::status:
    case Part::feedback:
      keep(report_, text, ends, kMostPart);
      break;
    case Part::header:
      keep(inner_header_, text, ends, kMostText);
      break;
  }
}

Report Reader::finish() {
  if (!done_) {
    scanner_.finish(walker_);
    walker_.finish();
  }
  Report out;
  const std::string report = decoded(report_encoding_, std::move(report_));
  if (report_kind_ == Part::status) out.notice = read_delivery_status(report);
  if (report_kind_ == Part::feedback) out.feedback = read_feedback(report);
  if (out.parsed()) {
    read_original(inner_header_, out.original);
    return out;
  }
  const std::string text = decoded(text_encoding_, std::move(text_));
  out.notice = read_qmail(text, out.original);
  if (!out.notice) out.notice = read_exim(text, failed_recipients_, out.original);
  if (!out.parsed()) out.original = {};
  return out;
}

}  // namespace pen::returned
