#include "lib/mail/seven_bit.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/mail/mime.h"

namespace pen::mail {
namespace {

// RFC 2045 sections 6.7 and 6.8: 76 columns, one of them for the "=" of a soft line break.
constexpr std::size_t kQuotedColumns = 75;
constexpr std::size_t kBase64Columns = 76;
// A delimiter line may have blanks after the boundary.
constexpr std::size_t kMaxDelimiter = SevenBitForm::kMaxBoundary + 256;

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// A mailbox's "From " line that strayed into a header: it is no field and does not end the header (as in
/// HeaderScanner). It need not be the first line: fields may have been put on top of the message.
bool stray_separator(std::string_view line) { return mailbox_line(line, true).value_or(false); }

}  // namespace

void SevenBitForm::feed(std::string_view chunk, std::string& out) {
  while (!chunk.empty()) {
    const auto lf = chunk.find('\n');
    const bool complete = lf != std::string_view::npos;
    const auto piece = chunk.substr(0, complete ? lf + 1 : chunk.size());
    chunk.remove_prefix(piece.size());
    if (line_open_) {
      if (in_ == In::header)
        out += piece;
      else
        body(piece, out);
      line_open_ = !complete;
      continue;
    }
    held_ += piece;
    const bool may_delimit =
        !multiparts_.empty() && held_.size() <= kMaxDelimiter && (held_ == "-" || held_.starts_with("--"));
    const bool wait = in_ == In::header ? held_.size() < kMaxHeld : may_delimit;
    if (!complete && wait) continue;
    line(held_, complete, out);
    held_.clear();
    line_open_ = !complete;
  }
}

void SevenBitForm::finish(std::string& out) {
  if (!held_.empty()) line(held_, true, out);
  held_.clear();
  if (in_ == In::header) end_field(out);
  if (in_ == In::quoted_printable && std::exchange(cr_, false)) {
    put_blank(true, out);
    put('\r', false, out);
  }
  if (in_ == In::base64 && !eol_.empty()) encode(std::exchange(eol_, {}), out);
  if (in_ == In::base64 && std::exchange(cr_, false)) encode("\r", out);
  end_part(out);
}

void SevenBitForm::line(std::string_view text, bool complete, std::string& out) {
  if (complete && !multiparts_.empty() && text.starts_with("--") && delimiter(text, out)) return;
  if (in_ == In::header)
    header_line(text, complete, out);
  else
    body(text, out);
}

bool SevenBitForm::delimiter(std::string_view text, std::string& out) {
  std::string_view rest = without_end(text).substr(2);
  while (rest.ends_with(' ') || rest.ends_with('\t')) rest.remove_suffix(1);
  for (std::size_t i = multiparts_.size(); i-- > 0;) {
    const std::string& boundary = multiparts_[i].boundary;
    if (!rest.starts_with(boundary)) continue;
    const auto after = rest.substr(boundary.size());
    if (!after.empty() && after != "--") continue;
    if (in_ == In::header)
      end_field(out);
    else
      end_part(out);
    out += text;
    const auto depth = multiparts_[i].depth;
    const bool digest = multiparts_[i].digest;
    // The inner parts end; the other boundaries of the same header do not.
    std::erase_if(multiparts_, [&](const Multipart& m) { return m.depth > depth; });
    if (after.empty()) {
      begin_header(digest ? "message/rfc822" : "text/plain");
    } else {
      multiparts_.erase(multiparts_.begin() + static_cast<std::ptrdiff_t>(i));
      in_ = In::as_is;
    }
    return true;
  }
  return false;
}

void SevenBitForm::begin_header(std::string_view default_type) {
  in_ = In::header;
  top_ = false;
  default_type_ = default_type;
  field_.clear();
  field_cut_ = false;
  type_.clear();
  has_version_ = false;
  label_ = Label::none;
}

void SevenBitForm::header_line(std::string_view text, bool complete, std::string& out) {
  const auto bare = without_end(text);
  const bool continues = (text.starts_with(' ') || text.starts_with('\t')) && (!field_.empty() || field_cut_);
  if (continues && !field_cut_ && complete && field_.size() + text.size() <= kMaxHeld) {
    field_ += text;
    return;
  }
  if (!continues || !field_cut_) end_field(out);
  if (continues || !complete) {  // the rest of a field that is too long to be inspected
    field_cut_ = true;
    out += text;
    return;
  }
  field_cut_ = false;
  if (bare.empty()) {
    end_header(out);
    out += text;
  } else if (field_name_length(bare) == 0 && !stray_separator(bare)) {
    // The body begins without an empty line.
    end_header(out);
    out += "\r\n";
    line(text, complete, out);
  } else {
    field_ = text;
  }
}

void SevenBitForm::end_field(std::string& out) {
  if (field_.empty()) return;
  const std::string field = std::exchange(field_, {});
  const auto colon = field.find(':');
  const auto name = trim(std::string_view(field).substr(0, colon));
  const std::string value = unfold(std::string_view(field).substr(colon + 1));
  if (iequals(name, "MIME-Version")) {
    has_version_ = true;
  } else if (iequals(name, "Content-Type") && type_.empty()) {
    type_ = value;
  } else if (iequals(name, "Content-Transfer-Encoding")) {
    const std::string word = mime_word(value);
    const bool untrue = word == "7bit" && top_ && eight_bit_;
    if (word == "8bit" || word == "binary" || untrue) {
      if (label_ == Label::none) label_ = Label::eight_bit;
      return;  // the replacement is known at the end of the header
    }
    if (label_ == Label::none) label_ = word == "7bit" ? Label::seven_bit : Label::encoded;
  }
  out += field;
}

void SevenBitForm::end_header(std::string& out) {
  const std::string type(type_.empty() ? std::string(default_type_) : mime_word(type_));
  const bool labelled_eight = label_ == Label::eight_bit;
  const auto label = [&](std::string_view word) {
    out += "Content-Transfer-Encoding: ";
    out += word;
    out += "\r\n";
  };
  in_ = In::as_is;
  if (label_ == Label::encoded) return;
  if (type.starts_with("multipart/")) {
    auto boundaries = mime_boundaries(type_);
    const auto outer = static_cast<std::ptrdiff_t>(multiparts_.size());
    const std::size_t depth = multiparts_.empty() ? 0 : multiparts_.back().depth + 1;
    bool all = !boundaries.empty();
    for (auto& boundary : boundaries) {
      const auto same =
          std::ranges::find(multiparts_.begin() + outer, multiparts_.end(), boundary, &Multipart::boundary);
      if (same != multiparts_.end()) continue;
      if (boundary.size() > kMaxBoundary || multiparts_.size() >= kMaxDepth) {
        all = false;
        continue;
      }
      multiparts_.push_back({std::move(boundary), type == "multipart/digest", type == "multipart/signed", depth});
    }
    if (labelled_eight) label(all ? "7bit" : "8bit");
    return;
  }
  if (type == "message/rfc822") {
    if (labelled_eight) label("7bit");
    begin_header("text/plain");
    return;
  }
  bool encode_it = labelled_eight;
  if (top_)
    encode_it = encode_it || eight_bit_;
  else if (label_ == Label::none && !labelled_only_)
    encode_it = !type.starts_with("message/") && std::ranges::none_of(multiparts_, &Multipart::is_signed);
  if (!encode_it) return;
  if (top_ && !has_version_) out += "MIME-Version: 1.0\r\n";
  if (top_ && type_.empty()) out += "Content-Type: text/plain; charset=unknown-8bit\r\n";
  const bool quoted = !type.contains('/') || type.starts_with("text/") || type.starts_with("message/");
  in_ = quoted ? In::quoted_printable : In::base64;
  label(quoted ? "quoted-printable" : "base64");
}

void SevenBitForm::end_part(std::string& out) {
  if (in_ == In::quoted_printable) put_blank(false, out);
  if (in_ == In::base64) flush_base64(out);
  column_ = 0;
  blank_ = '\0';
  cr_ = false;
  eol_.clear();
}

void SevenBitForm::body(std::string_view text, std::string& out) {
  switch (in_) {
    case In::header:
    case In::as_is:
      out += text;
      return;
    case In::quoted_printable:
      for (const char c : text) quote(c, out);
      return;
    case In::base64:
      break;
  }
  if (!eol_.empty()) encode(std::exchange(eol_, {}), out);
  if (std::exchange(cr_, false)) {
    if (text == "\n") {
      eol_ = "\r\n";
      return;
    }
    encode("\r", out);
  }
  const auto bare = without_end(text);
  encode(bare, out);
  if (text.ends_with('\n'))
    eol_ = text.substr(bare.size());
  else
    cr_ = bare.size() < text.size();
}

void SevenBitForm::quote(char c, std::string& out) {
  if (cr_ && c == '\n') {
    cr_ = false;
    put_blank(false, out);  // a blank at the end of a line would get lost on the way
    out += "\r\n";
    column_ = 0;
    return;
  }
  if (std::exchange(cr_, false)) {
    put_blank(true, out);
    put('\r', false, out);
  }
  if (c == '\r') {
    cr_ = true;
    return;
  }
  put_blank(true, out);
  if (c == ' ' || c == '\t') {
    blank_ = c;
    return;
  }
  put(c, c > ' ' && c < 0x7f && c != '=', out);
  if (c == '\n') {  // bare LF: content, but the start of a line for readers that look for delimiters
    out += "=\r\n";
    column_ = 0;
  }
}

void SevenBitForm::put_blank(bool as_it_is, std::string& out) {
  if (blank_ != '\0') put(std::exchange(blank_, '\0'), as_it_is, out);
}

void SevenBitForm::put(char c, bool as_it_is, std::string& out) {
  const auto width = [&] { return as_it_is ? 1U : 3U; };
  if (column_ + width() > kQuotedColumns) {
    out += "=\r\n";
    column_ = 0;
  }
  // A line broken here must not begin like a delimiter.
  if (column_ == 0 && c == '-') as_it_is = false;
  if (as_it_is) {
    out += c;
  } else {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    out += '=';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  column_ += width();
}

void SevenBitForm::encode(std::string_view bytes, std::string& out) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : bytes) {
    group_ = group_ << 8 | static_cast<unsigned char>(c);
    if (++in_group_ < 3) continue;
    if (column_ == kBase64Columns) {
      out += "\r\n";
      column_ = 0;
    }
    for (int shift = 18; shift >= 0; shift -= 6) out += kAlphabet[group_ >> shift & 63];
    column_ += 4;
    group_ = 0;
    in_group_ = 0;
  }
}

void SevenBitForm::flush_base64(std::string& out) {
  if (const unsigned left = in_group_; left > 0) {
    encode(std::string_view("\0\0", 3 - left), out);
    for (unsigned i = 0; i < 3 - left; ++i) out[out.size() - 1 - i] = '=';
  }
  if (column_ > 0) out += "\r\n";
}

}  // namespace pen::mail
