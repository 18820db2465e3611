#include "lib/submission/recipients.h"

#include <set>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/header.h"
#include "lib/submission/format.h"

namespace pen::submission {
namespace {

using Line = mail::HeaderScanner::Line;

enum class Kind { other, plain, resent };

Kind kind_of(std::string_view name) {
  for (const std::string_view word : {"to", "cc", "bcc"})
    if (iequals(name, word)) return Kind::plain;
  for (const std::string_view word : {"resent-to", "resent-cc", "resent-bcc"})
    if (iequals(name, word)) return Kind::resent;
  return Kind::other;
}

/// The part of a line that decides its kind, which does not depend on how much of the line was kept.
std::string_view start_of(std::string_view line) { return line.substr(0, mail::HeaderScanner::kDecide); }
std::string_view field_name(std::string_view line) { return line.substr(0, mail::field_name_length(start_of(line))); }

}  // namespace

void HeaderRecipients::feed(std::string_view content) {
  while (!ended_ && !content.empty()) {
    const auto lf = content.find('\n');
    const auto part = content.substr(0, lf);
    // Of a line that is no field of ours only the beginning matters.
    const bool counts = line_.size() < mail::HeaderScanner::kDecide ||
                        (in_field_ && (line_.front() == ' ' || line_.front() == '\t')) ||
                        kind_of(field_name(line_)) != Kind::other;
    if (counts) line_ += part;
    if (line_.size() + kept_ > kMaxHeader) {
      fault_ = "header too long";
      ended_ = true;
      return;
    }
    if (lf == std::string_view::npos) return;
    content.remove_prefix(lf + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    std::string whole;
    whole.swap(line_);
    line(whole);
  }
}

void HeaderRecipients::line(std::string_view text) {
  const Line kind =
      mail::HeaderScanner::classify(start_of(text), text.size() < mail::HeaderScanner::kDecide, first_line_);
  first_line_ = false;
  if (kind == Line::continuation) {
    if (in_field_) {
      field_ += text;
      kept_ += text.size();
    }
    return;
  }
  field();
  if (kind == Line::separator || kind == Line::body) {
    ended_ = true;
    return;
  }
  in_field_ = kind_of(field_name(text)) != Kind::other;
  if (in_field_) {
    field_ = text;
    kept_ += text.size();
  }
}

void HeaderRecipients::field() {
  if (!in_field_) return;
  in_field_ = false;
  const std::string_view whole = field_;
  const auto name = field_name(whole);
  const bool resent = kind_of(name) == Kind::resent;
  any_resent_ = any_resent_ || resent;
  auto& list = resent ? resent_ : plain_;
  const auto room = kMaxRecipients + 1 - list.size();
  const auto value = whole.substr(whole.find(':') + 1);
  for (auto& address : mail::parse_address_list(value, room)) list.push_back(std::move(address.address));
  if (list.size() > kMaxRecipients) fault_ = "too many recipients";
  field_.clear();
}

void HeaderRecipients::finish() {
  if (ended_) return;
  if (!line_.empty()) {
    if (line_.ends_with('\r')) line_.pop_back();
    line(std::exchange(line_, {}));
  }
  field();
  ended_ = true;
}

std::vector<std::string> HeaderRecipients::take() {
  std::vector<std::string> out;
  std::set<std::string, std::less<>> seen;
  for (auto& address : any_resent_ ? resent_ : plain_)
    if (seen.insert(address).second) out.push_back(std::move(address));
  return out;
}

}  // namespace pen::submission
