#include "lib/mail/returned/plain_text.h"

#include "lib/base/text.h"
#include "lib/mail/returned/fields.h"

namespace pen::returned {
namespace {

/// The lines up to an empty one, which is taken too. Empty lines in front are passed over.
std::string_view take_paragraph(std::string_view& text) {
  while (text.starts_with("\r\n") || text.starts_with('\n')) (void)take_line(text);
  const std::string_view all = text;
  std::size_t size = 0;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;
    size = static_cast<std::size_t>(line.data() + line.size() - all.data());
  }
  return all.substr(0, size);
}

void add(Notice& notice, ReturnedRecipient one) {
  one.status = status_within(one.diagnostic);
  if (one.status.empty()) one.status = "5.0.0";
  if (one.status.front() != '5') one.action = one.status.front() == '4' ? Action::delayed : Action::failed;
  if (notice.recipients.size() < kMostRecipients)
    notice.recipients.push_back(std::move(one));
  else
    ++notice.more;
}

}  // namespace

void read_original(std::string_view header, Original& original) {
  for (FieldLines lines(header); auto field = lines.next();) {
    if (field->name.empty()) return;
    const auto take = [&](std::string_view name, std::string& into) {
      if (iequals(field->name, name) && into.empty()) into = clean(field->value, kMaxText);
    };
    take("Message-ID", original.message_id);
    take("From", original.from);
    take("To", original.to);
    if (iequals(field->name, "Return-Path") && original.return_path.empty())
      original.return_path = address_of(field->value);
  }
}

std::optional<Notice> read_qmail(std::string_view text, Original& original) {
  if (!take_paragraph(text).starts_with("Hi. This is the")) return std::nullopt;
  Notice notice;
  notice.form = Form::qmail;
  while (!text.empty()) {
    std::string_view paragraph = take_paragraph(text);
    if (paragraph.starts_with('-')) {
      while (text.starts_with("\r\n") || text.starts_with('\n')) (void)take_line(text);
      read_original(text, original);
      break;
    }
    if (!paragraph.starts_with('<')) continue;
    const std::string_view line = take_line(paragraph);
    const auto end = line.rfind(">:");
    if (end == std::string_view::npos || end + 2 != line.size()) continue;
    ReturnedRecipient one;
    one.final = clean(line.substr(1, end - 1), kMaxText);
    one.diagnostic = clean(paragraph, kMaxText);
    if (!one.final.empty()) add(notice, std::move(one));
  }
  if (notice.recipients.empty()) return std::nullopt;
  return notice;
}

std::optional<Notice> read_exim(std::string_view text, std::string_view failed_recipients, Original& original) {
  if (failed_recipients.empty()) return std::nullopt;
  const auto automatic = text.find("This message was created automatically by mail delivery software");
  if (automatic == std::string_view::npos || automatic > 200) return std::nullopt;
  Notice notice;
  notice.form = Form::exim;
  // What is behind the line of dashes is the message that came back.
  auto copy = text.find("\n------ This is a copy of ");
  if (copy == std::string_view::npos) copy = text.size();
  const std::string_view said = text.substr(0, copy);
  std::string_view behind = text.substr(copy);
  if (!behind.empty()) {
    behind.remove_prefix(1);
    (void)take_line(behind);
    while (behind.starts_with("\r\n") || behind.starts_with('\n')) (void)take_line(behind);
    read_original(behind, original);
  }
  for (const auto address : split(failed_recipients)) {
    ReturnedRecipient one;
    one.final = clean(address, kMaxText);
    std::string_view rest = said;
    while (!rest.empty()) {  // "  jo@there.example", and its reason in lines that are indented more
      const std::string_view line = take_line(rest);
      if (!line.starts_with("  ") || !iequals(trim(line), address)) continue;
      std::string why;
      while (rest.starts_with("   ") && why.size() < kMaxText) why.append(1, ' ').append(take_line(rest));
      one.diagnostic = clean(why, kMaxText);
      break;
    }
    add(notice, std::move(one));
    if (notice.recipients.size() == kMostRecipients) break;
  }
  if (notice.recipients.empty()) return std::nullopt;
  return notice;
}

}  // namespace pen::returned
