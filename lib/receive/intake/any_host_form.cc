#include "lib/receive/intake/any_host_form.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/header_fields.h"
#include "lib/mail/mime.h"

namespace pen::intake {
namespace {

/// Whether another encoding would break what somebody has signed or sealed.
bool must_stay(const mail::HeaderField& field) {
  if (iequals(field.name, "DKIM-Signature") || iequals(field.name, "ARC-Seal")) return true;
  if (!iequals(field.name, "Content-Type")) return false;
  const std::string type = mail::mime_word(mail::unfold(field.value));
  return type == "multipart/signed" || type == "multipart/encrypted";
}

}  // namespace

void AnyHostForm::begin(std::string_view piece, bool eight_bit_body, bool last) {
  // What is complete and has no 8-bit bytes needs nothing.
  if (!options_.seven_bit || (last && !eight_bit_body)) return;
  if (std::ranges::any_of(mail::HeaderFields::parse(piece).fields.all(), must_stay)) return;
  if (eight_bit_body)
    seven_bit_.emplace(true);
  else
    seven_bit_.emplace(mail::SevenBitForm::LabelledOnly{});
}

void AnyHostForm::convert(std::string& piece, bool last) {
  std::string out;
  seven_bit_->feed(piece, out);
  if (last) seven_bit_->finish(out);
  std::string_view rest = out;
  if (facts_.size() == 0) {
    const std::size_t header = mail::HeaderFields::parse(out).size;
    scanner_.feed(rest.substr(0, header), facts_);
    facts_.end_of_header();
    rest.remove_prefix(header);
  }
  scanner_.feed(rest, facts_);
  if (last) scanner_.finish(facts_);
  piece = std::move(out);
}

void AnyHostForm::break_lines(std::string& piece) {
  std::vector<Bytes> pieces;
  breaks_->feed(piece, pieces);
  std::string out;
  out.reserve(piece.size());
  for (const Bytes part : pieces) out += as_text(part);
  piece = std::move(out);
}

void AnyHostForm::next(std::string& piece, Facts so_far, bool last) {
  const bool first = !std::exchange(begun_, true);
  if (first) begin(piece, so_far.eight_bit_body, last);
  if (seven_bit_) convert(piece, last);
  if (options_.line_limit == 0) return;
  const std::uint64_t longest = seven_bit_ ? facts_.longest_line() : so_far.longest_line;
  if (!breaks_ && longest > options_.line_limit) {
    breaks_.emplace(options_.line_limit, mail::DataForm::Dots::as_they_are);
    if (!first) breaks_->begin_in_body(column_);
  }
  if (breaks_) {
    break_lines(piece);
  } else if (const auto lf = piece.rfind('\n'); lf != std::string::npos) {
    column_ = piece.size() - lf - 1;
  } else {
    column_ += piece.size();
  }
}

void AnyHostForm::settle(mail::BodyFacts& facts) && {
  if (seven_bit_) facts = std::move(facts_).finish();
  if (!breaks_) return;
  facts.size += breaks_->added();
  facts.header_size += breaks_->added_to_header();
  facts.longest_line = std::min<std::uint64_t>(facts.longest_line, options_.line_limit);
}

}  // namespace pen::intake
