#include "lib/mail/header.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {

std::size_t field_name_length(std::string_view line) {
  std::size_t n = 0;
  while (n < line.size() && line[n] > 32 && line[n] < 127 && line[n] != ':') ++n;
  if (n == 0) return 0;
  std::size_t colon = n;
  while (colon < line.size() && (line[colon] == ' ' || line[colon] == '\t')) ++colon;
  return colon < line.size() && line[colon] == ':' ? n : 0;
}

std::optional<bool> mailbox_line(std::string_view start, bool whole) {
  constexpr std::string_view kFrom = "From ";
  whole = whole || start.size() >= HeaderScanner::kDecide;
  start = start.substr(0, HeaderScanner::kDecide);
  const auto quotes = std::min(start.find_first_not_of('>'), start.size());
  const auto rest = start.substr(quotes);
  if (rest.size() < kFrom.size()) return kFrom.starts_with(rest) && !whole ? std::nullopt : std::optional(false);
  if (!rest.starts_with(kFrom)) return false;
  const auto next = rest.find_first_not_of(" \t", kFrom.size());
  if (next == rest.npos) return whole ? std::optional(true) : std::nullopt;
  return rest[next] != ':';
}

FieldUse field_use(std::string_view name) {
  struct Row {
    std::string_view name;
    FieldUse use;
  };
  using enum FieldUse;
  static constexpr Row kRows[] = {
      {"From", sender_address},
      {"To", recipient_address},
      {"Cc", recipient_address},
      {"Bcc", recipient_address},
      {"Reply-To", sender_address},
      {"Sender", sender_address},
      {"Content-Type", mime},
      {"Content-Transfer-Encoding", mime},
      {"Content-Disposition", mime},
      {"Content-Description", mime},
      {"Content-ID", mime},
      {"MIME-Version", mime},
      {"Resent-From", sender_address},
      {"Resent-Sender", sender_address},
      {"Resent-Reply-To", recipient_address},
      {"Resent-To", recipient_address},
      {"Resent-Cc", recipient_address},
      {"Resent-Bcc", recipient_address},
      {"Errors-To", sender_address},
      {"Return-Path", sender_address},
      {"Return-Receipt-To", sender_address},
      {"Disposition-Notification-To", sender_address},
      {"Mail-Followup-To", sender_address},
      {"Apparently-To", recipient_address},
  };
  for (const auto& row : kRows)
    if (iequals(row.name, name)) return row.use;
  return other;
}

HeaderScanner::Line HeaderScanner::classify(std::string_view start, bool whole, bool first_line) {
  if (start.empty()) return whole ? Line::separator : Line::undecided;
  // A mailbox's "From " line that strayed into the message: it is not a field and does not end the header.
  if (first_line) {
    const auto separator = mailbox_line(start, whole);
    if (!separator) return Line::undecided;
    if (*separator) return Line::continuation;
  }
  if (start.front() == ' ' || start.front() == '\t') return first_line ? Line::body : Line::continuation;
  if (field_name_length(start) > 0) return Line::field;
  if (whole || start.size() >= kDecide) return Line::body;
  // A colon may still come, unless the line already holds a character that neither a name nor the blanks before a
  // colon can.
  std::size_t n = 0;
  while (n < start.size() && start[n] > 32 && start[n] < 127 && start[n] != ':') ++n;
  if (n == 0) return Line::body;
  while (n < start.size() && (start[n] == ' ' || start[n] == '\t')) ++n;
  return n == start.size() ? Line::undecided : Line::body;
}

void HeaderScanner::resent(std::string_view name) {
  summary_.resent = true;
  if (iequals(name, "Date")) summary_.resent_date = true;
  if (iequals(name, "Message-ID")) summary_.resent_message_id = true;
  if (iequals(name, "From")) summary_.resent_from = true;
  if (iequals(name, "To") || iequals(name, "Cc")) summary_.recipients = true;
}

void HeaderScanner::line(std::string_view text, Line kind) {
  std::string_view value = text;
  if (kind == Line::field) {
    keeps_ = Keeps::nothing;
    const auto n = field_name_length(text);
    const auto name = text.substr(0, n);
    value = text.substr(text.find(':', n) + 1);
    switch (ascii_lower(name.front())) {
      case 'r':
        if (iequals(name, "Received"))
          ++summary_.received;
        else if (istarts_with(name, "Resent-"))
          resent(name.substr(7));
        else if (iequals(name, "Require-TLS-ESMTP") && iequals(trim(value), "yes"))
          summary_.require_tls_esmtp = true;
        break;
      case 'c':
        if (iequals(name, "Cc")) summary_.recipients = true;
        break;
      case 'd':
        if (iequals(name, "Date"))
          summary_.date = true;
        else if (iequals(name, "Delivered-To"))
          ++summary_.delivered_to;
        break;
      case 'f':
        if (iequals(name, "From")) {
          if (!summary_.from) keeps_ = Keeps::from;
          summary_.from = true;
        }
        break;
      case 't':
        if (iequals(name, "To"))
          summary_.recipients = true;
        else if (iequals(name, "TLS-Required"))
          summary_.tls_required_no = ++summary_.tls_required_fields == 1 && iequals(trim(value), "no");
        break;
      case 'm':
        if (iequals(name, "Message-ID")) {
          if (!summary_.message_id) keeps_ = Keeps::message_id;
          summary_.message_id = true;
        }
        break;
      default:
        break;
    }
  }
  if (keeps_ == Keeps::nothing) return;
  value = trim(value);
  auto& kept = keeps_ == Keeps::from ? summary_.from_value : summary_.message_id_value;
  if (value.empty() || kept.size() >= HeaderSummary::kMaxKept) return;
  kept += value.substr(0, HeaderSummary::kMaxKept - kept.size());
}

}  // namespace pen::mail
