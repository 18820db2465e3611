#include "lib/intake/content_inspection.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::intake {

using Line = mail::HeaderScanner::Line;

namespace {

mail::MimeWalker::Options walk_options(const ContentOptions& options) {
  if (options.checks != nullptr) {
    mail::MimeWalker::Options walk = options.checks->tables().walk;
    walk.max_field = options.max_field;
    return walk;
  }
  return {.mime = false, .lines = false, .max_field = options.max_field};
}

}  // namespace

ContentBuilder::Inspection::Inspection(ContentBuilder& to)
    : to_(to), walker_(*this, walk_options(to.options_)) {}

void ContentBuilder::inspect(std::string_view part) {
  line_open_ = true;
  inspection_->walker().text(part);
  inspection_->look();
}

void ContentBuilder::inspect_end() {
  line_open_ = false;
  inspection_->walker().line_end();
  inspection_->look();
  in_body_ = inspection_->walker().plain();
}

void ContentBuilder::Inspection::look() {
  if (to_.options_.checks == nullptr || !walker_.too_deep()) return;
  to_.options_.checks->refuse_nesting();
  check_failed();
}

void ContentBuilder::Inspection::finish() {
  walker_.finish();
  to_.line_open_ = false;
  to_.in_body_ = true;
}

/// Carries over what checks have come to.
void ContentBuilder::Inspection::check_failed() {
  const Checks& checks = *to_.options_.checks;
  if (!checks.failed().empty()) {
    to_.failed_lookup_ = checks.failed();
    to_.fail_with(ContentProblem::lookup_failed);
  }
  // A refusal for now leaves the message where it is, whoever wants to give it back.
  const bool back = to_.options_.keep_refused && checks.refusal().starts_with('5');
  if (!checks.refusal().empty() && !back) to_.fail_with(ContentProblem::refused);
  if (checks.discarded()) to_.fail_with(ContentProblem::discarded);
}

/// "\n" between lines.
void ContentBuilder::Inspection::put(std::string_view lines, bool ends) {
  for (;;) {
    const auto lf = lines.find('\n');
    to_.keep(lines.substr(0, lf));
    if (lf == std::string_view::npos) break;
    to_.keep_end();
    lines.remove_prefix(lf + 1);
  }
  if (ends) to_.keep_end();
}

void ContentBuilder::Inspection::own_field(std::string_view field) {
  std::string text;
  for (const char c : field)
    if (c != '\r') text += c;
  before_.clear();
  if (Checks* checks = to_.options_.checks) {
    const bool keep = checks->field(Header::message, text, before_);
    check_failed();
    if (!before_.empty()) to_.add_field(std::string_view(before_).substr(0, before_.size() - 2));
    if (!keep) return;
  }
  std::string folded;
  for (const char c : text) {
    if (c == '\n') folded += '\r';
    folded += c;
  }
  to_.add_field(folded);
}

void ContentBuilder::Inspection::map_addresses(std::string_view name, std::string& text) {
  const auto use = mail::field_use(name);
  const bool sender = use == mail::FieldUse::sender_address;
  if (!sender && use != mail::FieldUse::recipient_address) return;
  const auto start = text.find(':') + 1;
  std::string value = text.substr(start);
  const auto changed = mail::replace_addresses(
      value, [&](std::string_view address) { return to_.options_.map_address(address, sender); });
  if (!changed) {
    to_.failed_lookup_ = changed.error().message();
    to_.fail_with(ContentProblem::lookup_failed);
  } else if (*changed) {
    text.replace(start, std::string::npos, value);
  }
}

void ContentBuilder::Inspection::field(Header header, std::string_view text, bool ends) {
  dropping_ = false;
  Checks* checks = to_.options_.checks;
  const auto name = text.substr(0, mail::field_name_length(text));
  const auto use = mail::field_use(name);
  const bool mapped =
      header == Header::message && to_.options_.map_address && ends &&
      (use == mail::FieldUse::sender_address || use == mail::FieldUse::recipient_address);
  bool keep = true;
  std::string changed;
  if (checks != nullptr || mapped) changed = text;
  if (checks != nullptr) {
    before_.clear();
    keep = checks->field(header, changed, before_);
    check_failed();
    if (!before_.empty()) to_.add_field(std::string_view(before_).substr(0, before_.size() - 2));
  }
  const bool replaced = checks != nullptr && changed != text;
  if (header == Header::message) {
    // Hops count whatever checks do to their traces: a loop must end.
    const bool hop = iequals(name, "Received");
    if (hop || keep) {
      std::string_view seen = hop || checks == nullptr ? text : std::string_view(changed);
      const auto lf = seen.find('\n');
      to_.header_.line(seen.substr(0, lf), Line::field);
      for (auto at = lf; at != std::string_view::npos;) {
        const auto next = seen.find('\n', at + 1);
        to_.header_.line(seen.substr(at + 1, next - at - 1), Line::continuation);
        at = next;
      }
      to_.count_hops();
    }
    keep = keep && !to_.dropped(checks != nullptr ? std::string_view(changed) : text);
  }
  dropping_ = !keep || (replaced && !ends);
  if (!keep) return;
  if (mapped) map_addresses(changed.substr(0, mail::field_name_length(changed)), changed);
  if (checks != nullptr || mapped)
    put(changed, ends || replaced);
  else
    put(text, ends);
}

void ContentBuilder::Inspection::more_field(Header, std::string_view text, bool ends) {
  if (!dropping_) put(text, ends);
}

void ContentBuilder::Inspection::end_of_header(Header header, bool separator) {
  dropping_ = false;
  if (header == Header::message) {
    to_.end_header(separator);
    to_.in_body_ = false;  // until it is known that nobody looks at the body
  }
  if (separator) to_.keep_end();
}

void ContentBuilder::Inspection::body(std::string_view text, bool ends) {
  if (to_.options_.checks == nullptr || !to_.options_.checks->tables().walk.lines) {
    put(text, ends);
    return;
  }
  std::string changed(text);
  before_.clear();
  const bool keep = to_.options_.checks->body(changed, walker_.body_offset(), before_);
  check_failed();
  if (!before_.empty()) {
    if (line_kept_) to_.keep_end();  // it breaks a line that is longer than is looked at
    put(std::string_view(before_).substr(0, before_.size() - 2), true);
    line_kept_ = false;
  }
  if (keep && !(changed.empty() && line_dropped_)) {
    to_.keep(changed);
    line_kept_ = true;
  } else {
    line_dropped_ = true;
  }
  if (!ends) return;
  if (line_kept_) to_.keep_end();
  line_kept_ = line_dropped_ = false;
}

}  // namespace pen::intake
