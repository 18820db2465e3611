#include "lib/mail/mime_walker.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/mail/mime.h"

namespace pen::mail {
namespace {

constexpr std::size_t kDashes = 2;  // in front of a boundary, and behind the last one

}  // namespace

MimeWalker::MimeWalker(Sink& sink, const Options& options) : sink_(sink), options_(options) {
  options_.max_field = std::max(options_.max_field, HeaderScanner::kDecide);
  if (options_.lines)  // a delimiter must fit into one inspected piece
    options_.max_boundary = std::min(options_.max_boundary, std::max<std::size_t>(options_.max_line, 80) - 4);
}

void MimeWalker::text(std::string_view part) {
  while (!part.empty()) {
    if (passing_) {
      pass(part, false);
      return;
    }
    const bool skim = !in_header_ && !options_.lines;
    if (skim && line_.empty() && (parts_.empty() || part.front() != '-')) {
      passing_ = true;
      at_start_ = false;
      continue;
    }
    const std::size_t most = in_header_       ? options_.max_field
                             : options_.lines ? std::max<std::size_t>(options_.max_line, 80)
                                              : options_.max_boundary + 2 * kDashes;
    const auto taken = std::min(most - line_.size(), part.size());
    line_ += part.substr(0, taken);
    part.remove_prefix(taken);
    if (line_.size() == most || (skim && line_ != "-" && !line_.starts_with("--"))) decide(false);
  }
}

std::size_t MimeWalker::held() const {
  std::size_t bytes = line_.capacity() + field_.capacity();
  for (const auto* boundaries : {&found_, &parts_})
    for (const auto& part : *boundaries) bytes += sizeof part + part.boundary.capacity();
  return bytes;
}

void MimeWalker::line_end() {
  if (passing_)
    pass({}, true);
  else
    decide(true);
  passing_ = false;
  at_start_ = true;
  if (std::exchange(delimiter_, false)) begin_header(Header::part);
}

void MimeWalker::finish() {
  if (!at_start_ || !line_.empty()) line_end();
  if (!in_header_) return;
  end_field(true);
  in_header_ = false;
  sink_.end_of_header(header_, false);
}

void MimeWalker::pass(std::string_view text, bool ends) {
  if (in_header_)
    sink_.more_field(header_, text, ends);
  else
    put_body(text, ends);
}

void MimeWalker::put_body(std::string_view text, bool ends) {
  sink_.body(text, ends);
  offset_ += text.size() + (ends ? 1 : 0);
}

void MimeWalker::decide(bool whole) {
  if (in_header_)
    header_line(whole);
  else
    body_line(whole);
  line_.clear();
  at_start_ = whole;
  if (!whole) passing_ = in_header_ || !options_.lines;
}

void MimeWalker::header_line(bool whole) {
  if (line_.starts_with("--") && delimiter(whole)) return;
  const auto kind = HeaderScanner::classify(line_, whole, std::exchange(first_line_, false));
  switch (kind) {
    case HeaderScanner::Line::separator:
      end_field(true);
      end_header(true);
      return;
    case HeaderScanner::Line::body:
    case HeaderScanner::Line::undecided:
      end_field(true);
      end_header(false);
      body_line(whole);  // the line may be a delimiter of this header's own boundary
      return;
    case HeaderScanner::Line::field:
      end_field(true);
      field_ = line_;
      if (!whole) end_field(false);
      return;
    case HeaderScanner::Line::continuation:
      break;
  }
  std::string_view rest = line_;
  if (!field_.empty()) {
    const auto room = options_.max_field - field_.size();
    if (room > 1) {
      const auto taken = std::min(rest.size(), room - 1);
      field_ += '\n';
      field_ += rest.substr(0, taken);
      rest.remove_prefix(taken);
      if (whole && rest.empty()) return;
    }
    end_field(false);  // the rest of the field is not inspected
    if (room <= 1) sink_.more_field(header_, {}, true);
  }
  sink_.more_field(header_, rest, whole);
}

void MimeWalker::body_line(bool whole) {
  if (at_start_ && line_.starts_with("--") && delimiter(whole)) return;
  put_body(line_, whole);
}

bool MimeWalker::delimiter(bool whole) {
  const std::string_view rest = std::string_view(line_).substr(kDashes);
  for (std::size_t i = parts_.size(); i-- > 0;) {
    const std::string& boundary = parts_[i].boundary;
    if (!rest.starts_with(boundary)) continue;
    const bool last = rest.substr(boundary.size()).starts_with("--");
    digest_ = parts_[i].digest;
    // The inner parts end; the other boundaries of the same header do not.
    const auto depth = parts_[i].depth;
    std::erase_if(parts_, [&](const Multipart& part) { return part.depth > depth; });
    if (last) parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
    if (in_header_) {
      end_field(true);
      in_header_ = false;
      offset_ = 0;
      sink_.end_of_header(header_, false);
    }
    delimiter_ = !last;
    put_body(line_, whole);
    return true;
  }
  return false;
}

void MimeWalker::end_field(bool ends) {
  if (field_.empty()) return;
  const std::string_view field = field_;
  const auto n = field_name_length(field);
  if (options_.mime && iequals(field.substr(0, n), "Content-Type")) take_type(field.substr(field.find(':', n) + 1));
  sink_.field(header_, field_, ends);
  field_.clear();
}

void MimeWalker::take_type(std::string_view value) {
  const std::string unfolded = unfold(value);
  const std::string type = mime_word(unfolded);
  if (!type.empty()) typed_ = true;
  if (type == "message/rfc822" || type == "message/global") message_ = true;
  if (!type.starts_with("multipart/")) return;
  for (auto& boundary : mime_boundaries(unfolded)) {
    boundary.resize(std::min(boundary.size(), options_.max_boundary));
    const bool known = std::ranges::find(found_, boundary, &Multipart::boundary) != found_.end();
    if (!known && found_.size() <= options_.max_depth)
      found_.push_back({std::move(boundary), type == "multipart/digest", 0});
  }
}

void MimeWalker::begin_header(Header header) {
  in_header_ = true;
  header_ = header;
  first_line_ = true;
  typed_ = message_ = false;
  found_.clear();
}

void MimeWalker::end_header(bool separator) {
  in_header_ = false;
  offset_ = 0;
  sink_.end_of_header(header_, separator);
  const bool message = message_ || (digest_ && !typed_);
  digest_ = false;  // "digest" applies to the direct parts, not to parts inside them
  const auto depth = parts_.empty() ? 0 : parts_.back().depth + 1;
  for (auto& part : found_) {
    if (parts_.size() >= options_.max_depth) {
      too_deep_ = true;
      break;
    }
    part.depth = depth;
    parts_.push_back(std::move(part));
  }
  if (separator && message) begin_header(Header::inner);
}

}  // namespace pen::mail
