#include "lib/receive/intake/content.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "lib/mail/seven_bit.h"
#include "lib/receive/intake/content_inspection.h"

namespace pen::intake {

using Line = mail::HeaderScanner::Line;

// RFC 5322 section 2.1.1, without CRLF: content with longer lines is not text.
constexpr std::size_t kMaxTextLine = 998;
constexpr std::size_t kShown = 100;  // of a line, in the log

/// Converts content to its 7-bit form, and cuts the result into lines again.
struct ContentBuilder::Conversion {
  mail::SevenBitForm form{mail::SevenBitForm::LabelledOnly{}};
  mail::BdatScanner lines{{.replace_bare_cr = false}};
  std::string out;
  struct Sink {
    ContentBuilder& to;
    void text(std::string_view part) { to.take_text(part); }
    void line_end() { to.take_line_end(); }
  };
};

ContentBuilder::ContentBuilder(ContentOptions options) : options_(std::move(options)) {
  if (options_.checks != nullptr || options_.map_address) inspection_ = std::make_unique<Inspection>(*this);
  if (options_.seven_bit) conversion_ = std::make_unique<Conversion>();
  if (options_.mailbox_lines) top_ = Top::open;
  raw_ = options_.mailbox_lines || processes();
}
ContentBuilder::~ContentBuilder() = default;

bool ContentBuilder::processes() const {
  return conversion_ != nullptr || (options_.checks != nullptr && options_.checks->tables().raw());
}

void ContentBuilder::fail_with(ContentProblem problem) {
  if (problem > problem_) problem_ = problem;
}

bool ContentBuilder::has_room() {
  if (options_.size_limit != 0 && received_ > options_.size_limit) fail_with(ContentProblem::too_large);
  return problem_ < ContentProblem::too_large;
}

void ContentBuilder::give_up() {
  fail_with(ContentProblem::no_memory);
  inspection_.reset();
  conversion_.reset();
  raw_ = false;
  top_ = Top::over;
  in_body_ = true;
}

std::size_t ContentBuilder::inspected() const { return inspection_ == nullptr ? 0 : inspection_->walker().held(); }

void ContentBuilder::keep(std::string_view part) {
  if (part.empty()) return;
  line_open_ = true;
  if (!refusal_.empty() && refused_text_.empty()) [[unlikely]]
    refused_text_ = printable(part, kShown);
  if (!has_room()) return;
  out_ += part;
  facts_.text(part);
}

void ContentBuilder::keep_end() {
  line_open_ = false;
  if (!has_room()) return;
  out_ += "\r\n";
  facts_.line_end();
}

void ContentBuilder::raw_text(std::string_view part) {
  if (options_.checks != nullptr) part = inspection_->characters(part);
  if (part.empty()) return;
  if (top_ != Top::open) return convert(part);
  top_line_ += part;
  decide_top(false);
}

/// As in Postfix: other readers would take such a line for the end of the header, or see an author in it.
void ContentBuilder::decide_top(bool whole) {
  const auto separator = mail::mailbox_line(top_line_, whole);
  if (!separator) return;
  top_ = *separator ? Top::separator : Top::over;
  if (*separator) convert("X-Mailbox-Line: ");
  if (!top_line_.empty()) convert(std::exchange(top_line_, {}));
  if (top_ == Top::over) raw_ = processes();
}

void ContentBuilder::convert(std::string_view part) {
  if (conversion_ == nullptr) return take_text(part);
  conversion_->form.feed(part, conversion_->out);
  take_converted();
}

void ContentBuilder::raw_line_end() {
  if (top_ == Top::open) decide_top(true);
  if (top_ == Top::separator) top_ = Top::open;
  if (conversion_ == nullptr) return take_line_end();
  conversion_->form.feed("\r\n", conversion_->out);
  take_converted();
}

void ContentBuilder::take_converted() {
  Conversion::Sink sink{*this};
  conversion_->lines.feed(conversion_->out, sink);
  conversion_->out.clear();
}

void ContentBuilder::add_field(std::string_view field) {
  for (;;) {
    const auto end = field.find("\r\n");
    const auto line = field.substr(0, end);
    out_ += line;
    out_ += "\r\n";
    if (!line.empty()) facts_.text(line);
    facts_.line_end();
    if (end == std::string_view::npos) break;
    field.remove_prefix(end + 2);
  }
}

void ContentBuilder::add_trace(std::string_view field) {
  if (inspection_ == nullptr) return add_field(field);
  inspection_->own_field(field);
}

void ContentBuilder::count_hops() {
  // Our own field counts too, as in Postfix.
  if (header_.summary().received + 1 >= options_.hop_limit) fail_with(ContentProblem::too_many_hops);
}

void ContentBuilder::count_field() {
  if (options_.field_limit != 0 && ++fields_ > options_.field_limit) fail_with(ContentProblem::too_many_fields);
}

void ContentBuilder::header_text(std::string_view part) {
  if (inspection_) return inspect(part);
  line_open_ = true;
  if (decided_) {  // the rest of a header line that is longer than any field we need
    if (!dropping_) keep(part);
    return;
  }
  line_ += part;
  if (line_.size() >= mail::HeaderScanner::kDecide) decide(false);
}

void ContentBuilder::decide(bool whole) {
  const auto kind = mail::HeaderScanner::classify(line_, whole, first_line_);
  first_line_ = false;
  if (kind == Line::separator) {
    end_header(true);
    return;
  }
  if (kind == Line::body) {
    end_header(false);
  } else {
    // A dropped field still counts: as a hop, because a loop must end, and as present, so that it is not added again.
    header_.line(line_, kind);
    count_hops();
    if (kind == Line::field) count_field();
    if (kind == Line::field) dropping_ = dropped(line_);
    if (!options_.take_fields.empty() && taken(line_, kind == Line::field)) dropping_ = true;
    if (dropping_) {
      decided_ = true;
      line_.clear();
      return;
    }
  }
  decided_ = true;
  keep(line_);
  line_.clear();
}

void ContentBuilder::header_line_end() {
  if (inspection_) return inspect_end();
  if (!decided_) decide(true);
  decided_ = false;
  if (dropping_ && !in_body_)
    line_open_ = false;
  else
    keep_end();
}

bool ContentBuilder::dropped(std::string_view line) const {
  if (options_.drop_fields.empty()) return false;
  const auto name = line.substr(0, mail::field_name_length(line));
  return std::ranges::any_of(options_.drop_fields, [&](const std::string& f) { return iequals(f, name); });
}

bool ContentBuilder::taken(std::string_view text, bool begins) {
  if (begins) {
    taking_ = nullptr;
    const auto name = text.substr(0, mail::field_name_length(text));
    const auto which = std::ranges::find_if(options_.take_fields, [&](auto field) { return iequals(field, name); });
    if (which == options_.take_fields.end()) return false;
    taken_.resize(options_.take_fields.size());
    std::string& into = taken_[static_cast<std::size_t>(which - options_.take_fields.begin())];
    if (into.empty()) taking_ = &into;
  }
  if (taking_ != nullptr) *taking_ += text.substr(0, kMaxTaken - std::min(taking_->size(), kMaxTaken));
  return begins || taking_ != nullptr;
}

std::string ContentBuilder::taken_field(std::string_view name) const {
  const auto which = std::ranges::find_if(options_.take_fields, [&](auto field) { return iequals(field, name); });
  const auto index = static_cast<std::size_t>(which - options_.take_fields.begin());
  if (index >= taken_.size() || taken_[index].empty()) return {};
  std::string value(taken_[index].substr(taken_[index].find(':') + 1));
  std::erase(value, '\n');
  std::erase(value, '\r');
  return std::string(trim(value));
}

void ContentBuilder::end_header(bool separator) {
  const auto& seen = header_.summary();
  const auto before = facts_.size();
  // A resent message is completed as the mail of the person who resends it.
  const bool resent = seen.resent;
  const auto complete = [&](const std::string& given, bool plain_there, bool resent_there) {
    if (given.empty() || (resent ? resent_there : plain_there)) return;
    const std::string field = (resent ? "Resent-" : "") + given;
    add_field(field);
    header_.line(field, Line::field);
  };
  complete(options_.message_id, seen.message_id, seen.resent_message_id);
  complete(options_.date, seen.date, seen.resent_date);
  if (options_.from && !(resent ? seen.resent_from : seen.from)) complete(options_.from(), false, false);
  if (!seen.recipients && !options_.undisclosed.empty()) add_field(options_.undisclosed);
  if (options_.require_tls && !seen.require_tls_esmtp) add_field("Require-TLS-ESMTP: yes");
  const bool unended = !separator && !ending_;
  if (unended) unended_header();
  if (options_.find_utf8) utf8_header_ = !mail::all_ascii(out_) && mail::valid_utf8(out_);
  if (separator) {
    facts_.end_of_header_after_separator();
  } else {
    // Fields need an empty line before a body that came without one.
    if (facts_.size() != before || (unended && facts_.size() > 0)) add_field("");
    facts_.end_of_header();
  }
  in_body_ = true;
}

void ContentBuilder::unended_header() {
  if (options_.unended == UnendedHeader::tell) add_field("MIME-Error: message header was not terminated by empty line");
  if (options_.unended != UnendedHeader::refuse) return;
  refusal_ = "5.6.0 message header was terminated with non-empty line";
  if (!options_.keep_refused) fail_with(ContentProblem::refused);
}

mail::BodyFacts ContentBuilder::finish() {
  if (top_ == Top::open) decide_top(true);
  if (conversion_) {
    conversion_->form.finish(conversion_->out);
    take_converted();
    Conversion::Sink sink{*this};
    conversion_->lines.finish(sink);
  }
  ending_ = true;
  if (inspection_ && !in_body_) inspection_->finish();
  if (line_open_ || !line_.empty()) {
    received_ += 2;
    take_line_end();
  }
  if (!in_body_) end_header(false);
  return std::move(facts_).finish();
}

mail::BodyType true_body_type(mail::BodyType declared, const mail::BodyFacts& facts) {
  using enum mail::BodyType;
  if (declared == binary_mime && (facts.nul || facts.longest_line > kMaxTextLine)) return declared;
  if (declared != binary_mime && declared != eight_bit_mime) return declared;
  return facts.eight_bit_header || facts.eight_bit_body ? eight_bit_mime : seven_bit;
}

}  // namespace pen::intake
