#include "lib/receive/intake/content_inspection.h"

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::intake {

using Line = mail::HeaderScanner::Line;

namespace {

// The cost of a pattern may grow with the square of a field's length; nearly all fields are shorter than this.
constexpr std::size_t kLongField = 4096;

mail::MimeWalker::Options walk_options(const ContentOptions& options) {
  mail::MimeWalker::Options walk{.mime = false, .lines = false};
  if (options.checks != nullptr) walk = options.checks->tables().walk;
  walk.max_field = options.max_field;
  return walk;
}

std::string_view name_of(std::string_view field) { return field.substr(0, mail::field_name_length(field)); }

}  // namespace

ContentBuilder::Inspection::Inspection(ContentBuilder& to)
    : CheckedContent(to.options_.checks, walk_options(to.options_)), to_(to) {}

void ContentBuilder::inspect(std::string_view part) {
  line_open_ = true;
  inspection_->walker().text(part);
  inspection_->look();
}

void ContentBuilder::inspect_end() {
  line_open_ = false;
  inspection_->walker().line_end();
  inspection_->look();
  const bool watched = options_.checks != nullptr && options_.checks->watches_body();
  in_body_ = inspection_->walker().plain() && !watched;
}

bool ContentBuilder::slow() const {
  if (inspection_ == nullptr || options_.checks == nullptr) return false;
  return inspection_->walker().held() > kLongField || options_.checks->tables().slow();
}

void ContentBuilder::found_slow() const {
  if (options_.checks != nullptr) options_.checks->tables().found_slow();
}

std::string_view ContentBuilder::Inspection::characters(std::string_view part) {
  part = checks()->characters(part, spare_);
  checked();
  return part;
}

void ContentBuilder::Inspection::look() {
  if (checks() == nullptr || !walker().too_deep() || !checks()->tables().bounds_nesting()) return;
  checks()->refuse_nesting();
  checked();
}

void ContentBuilder::Inspection::finish() {
  walker().finish();
  to_.line_open_ = false;
  to_.in_body_ = true;
}

/// Takes over the results of checks.
void ContentBuilder::Inspection::checked() {
  if (!checks()->failed().empty()) {
    to_.failed_lookup_ = checks()->failed();
    to_.fail_with(ContentProblem::lookup_failed);
  }
  // A temporary refusal leaves the message where it is, even if a permanent one would be returned to the sender.
  const bool back = to_.options_.keep_refused && checks()->refusal().starts_with('5');
  if (!checks()->refusal().empty() && !back) to_.fail_with(ContentProblem::refused);
  if (checks()->discarded()) to_.fail_with(ContentProblem::discarded);
}

void ContentBuilder::Inspection::own_field(std::string_view field) {
  std::string text(field), before;
  std::erase(text, '\r');
  if (checks() != nullptr) {
    const bool keep = checks()->field(Header::message, text, before);
    checked();
    if (!before.empty()) to_.add_field(std::string_view(before).substr(0, before.size() - 2));
    if (!keep) return;
  }
  std::string folded;
  std::string_view rest = text;
  for (auto lf = rest.find('\n'); lf != std::string_view::npos; lf = rest.find('\n')) {
    folded.append(rest.substr(0, lf)).append("\r\n");
    rest.remove_prefix(lf + 1);
  }
  to_.add_field(folded.append(rest));
}

void ContentBuilder::Inspection::scan(std::string_view field) {
  auto lf = field.find('\n');
  to_.header_.line(field.substr(0, lf), Line::field);
  while (lf != std::string_view::npos) {
    field.remove_prefix(lf + 1);
    lf = field.find('\n');
    to_.header_.line(field.substr(0, lf), Line::continuation);
  }
  to_.count_hops();
}

bool ContentBuilder::Inspection::message_field(std::string_view original, std::string& text, bool kept, bool whole) {
  to_.count_field();
  // Hops count even if checks drop the field: a loop must end.
  const bool hop = iequals(name_of(original), "Received");
  if (hop || kept) scan(hop ? original : std::string_view(text));
  if (!to_.options_.take_fields.empty() && to_.taken(original, true)) return false;
  if (!kept || to_.dropped(text)) return false;
  if (whole && to_.options_.map_address) map_addresses(text);
  return true;
}

void ContentBuilder::Inspection::map_addresses(std::string& text) {
  const auto use = mail::field_use(name_of(text));
  const bool sender = use == mail::FieldUse::sender_address;
  if (!sender && use != mail::FieldUse::recipient_address) return;
  const auto start = text.find(':') + 1;
  std::string value = text.substr(start);
  const auto changed = mail::replace_addresses(
      value, [&](std::string_view address) { return to_.options_.map_address(address, sender); },
      mail::Quotes::as_needed);
  if (!changed) {
    to_.failed_lookup_ = changed.error().message();
    to_.fail_with(ContentProblem::lookup_failed);
  } else if (*changed) {
    text.replace(start, std::string::npos, value);
  }
}

void ContentBuilder::Inspection::header_ended(Header header, bool separator) {
  if (header != Header::message) return;
  to_.end_header(separator);
  to_.in_body_ = false;  // until we know that no check needs the body
}

}  // namespace pen::intake
