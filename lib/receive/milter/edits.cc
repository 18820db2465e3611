#include "lib/receive/milter/edits.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/command.h"

namespace pen::milter {
namespace {

constexpr std::size_t kMaxReason = 100;

/// A value as it stands in the header, from one as a filter writes it.
std::string stored_value(std::string_view value, bool leading_space) {
  std::string out = mail::header_value(value);
  if (!leading_space) out.insert(0, " ");
  return out;
}

/// Runs milter_header_checks on a field that a filter writes.
class FieldChecks {
 public:
  FieldChecks(const Settings& settings, const intake::Message& message, std::vector<std::string>& notes) {
    if (!settings.header_checks) return;
    const auto note = [&message, &notes](const intake::Checks::Note& given) {
      intake::Checks::Note shown = given;
      const std::string action = fmt::format("milter-header-{}", given.action);
      shown.action = action;
      notes.push_back(message.noted(shown));
      if (given.action == "prepend") notes.push_back("warning: milter_header_checks: PREPEND does nothing here");
    };
    checks_.emplace(settings.header_checks, intake::Checks::Side::receiving,
                    intake::Checks::Reporter{.note = note, .warn = [&notes](const std::string& text) {
                                               notes.push_back("warning: " + text);
                                             }});
  }
  /// May change name and value. False: the field is left out.
  bool pass(std::string& name, std::string& value) {
    if (!checks_) return true;
    std::string text = name + ":" + value, before;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[kept++] = text[i];
    text.resize(kept);
    if (!checks_->field(mail::MimeWalker::Header::message, text, before)) return false;
    const auto colon = text.find(':');
    if (colon == std::string::npos || !mail::is_field_name(std::string_view(text).substr(0, colon))) return false;
    name = text.substr(0, colon);
    value = mail::header_value(text.substr(colon + 1));
    return true;
  }
  std::string refusal() const {
    if (!checks_) return {};
    if (!checks_->failed().empty()) return "4.3.0 Temporary lookup failure";
    return checks_->refusal();
  }
  /// A field was refused, and a note says so.
  bool refused() const { return checks_ && checks_->failed().empty() && !checks_->refusal().empty(); }
  intake::Effects take_effects() { return checks_ ? checks_->take_effects() : intake::Effects{}; }

 private:
  std::optional<intake::Checks> checks_;
};

/// "<a@b>", "a@b" or "<>" without brackets, as the grammar of SMTP reads it.
std::optional<mail::RcptCommand> read_recipient(const Edit& edit) {
  std::string_view path = trim(edit.name);
  const std::string bracketed = path.starts_with('<') ? std::string(path) : "<" + std::string(path) + ">";
  auto parsed = mail::parse_rcpt("TO:" + bracketed + (edit.value.empty() ? "" : " " + edit.value), {}, true);
  if (!parsed) return std::nullopt;
  return *std::move(parsed);
}

bool same_address(std::string_view a, std::string_view b) {
  return mail::local_part(a) == mail::local_part(b) && idn::same_domain(mail::domain_part(a), mail::domain_part(b));
}

void change_header(mail::HeaderFields& fields, const Edit& edit, std::string_view name, std::string_view value) {
  switch (edit.kind) {
    case Edit::Kind::add_header:
      fields.add(name, value);
      break;
    case Edit::Kind::insert_header:
      fields.insert(edit.index, name, value);
      break;
    default:
      fields.change(name, edit.index, value);
      break;
  }
}

bool of_header(Edit::Kind kind) {
  return kind == Edit::Kind::add_header || kind == Edit::Kind::insert_header || kind == Edit::Kind::change_header;
}

}  // namespace

std::string shown_reason(const Edit& quarantine) { return printable(quarantine.value, kMaxReason); }

void EnvelopeEdits::apply(intake::Message& message, std::vector<std::string>& notes) {
  const auto left_out = [&](const Edit& edit, const char* what) {
    notes.push_back(fmt::format("warning: {}: milter: {} {}", message.queue_id(), what, printable(edit.name, 100)));
  };
  for (const Edit& edit : edits_) {
    if (edit.kind == Edit::Kind::change_sender) {
      const std::string_view path = trim(edit.name);
      const std::string bracketed = path.starts_with('<') ? std::string(path) : "<" + std::string(path) + ">";
      auto mail = mail::parse_mail("FROM:" + bracketed + (edit.value.empty() ? "" : " " + edit.value),
                                   {.size = false, .auth = false});
      if (!mail) {
        left_out(edit, "cannot change the sender to");
        continue;
      }
      mail::Envelope& envelope = message.envelope();
      envelope.sender = mail->sender;
      if (!mail->envid.empty()) envelope.envid = mail->envid;
      if (mail->ret != mail::MessageFacts{}.ret) envelope.ret = mail->ret;
      continue;
    }
    auto rcpt = read_recipient(edit);
    if (!rcpt) {
      left_out(edit, edit.kind == Edit::Kind::add_recipient ? "cannot add recipient" : "cannot remove recipient");
      continue;
    }
    if (edit.kind == Edit::Kind::remove_recipient) {
      message.remove_recipients([&](const mail::Recipient& r) { return same_address(r.address, rcpt->recipient); });
      continue;
    }
    message.add_recipient({.address = std::move(rcpt->recipient),
                           .original = {},
                           .orcpt = std::move(rcpt->orcpt),
                           .notify = rcpt->notify});
  }
  edits_.clear();
}

Edited edit(const Draft& draft, Client::Answered answered, const Settings& settings, const intake::Message& message) {
  Edited out;
  auto next = std::make_shared<Draft>(draft);
  FieldChecks checks(settings, message, out.notes);
  bool changed = false;
  for (Edit& one : answered.edits) {
    if (one.kind == Edit::Kind::quarantine) {
      out.hold = true;
      out.hold_reason = shown_reason(one);
    } else if (!of_header(one.kind)) {
      out.envelope.add(std::move(one));
    } else if (!mail::is_field_name(one.name)) {
      out.notes.push_back(
          fmt::format("warning: {}: milter: not a header name: {}", message.queue_id(), printable(one.name, 100)));
    } else {
      const bool removes = one.kind == Edit::Kind::change_header && one.value.empty();
      std::string value = removes ? std::string() : stored_value(one.value, answered.leading_space);
      if (!removes && !checks.pass(one.name, value)) continue;
      change_header(next->fields, one, one.name, value);
      changed = true;
    }
  }
  if (const std::string refusal = checks.refusal(); !refusal.empty())
    out.reply = {(refusal.starts_with('5') ? "550 " : "451 ") + refusal};
  out.effects = checks.take_effects();
  out.told = out.effects.discard || (!out.reply.empty() && checks.refused());
  if (answered.body) {
    const intake::Commit kept = intake::outcome_of(*answered.body);
    if (kept.outcome == intake::Outcome::too_large)
      out.reply = {"552 5.3.4 Error: message file too big"};
    else if (kept.outcome != intake::Outcome::ok)
      out.reply = {"451 4.3.0 Error: queue file write error"};
    next->written = std::move(answered.body);
    changed = true;
  }
  if (changed) out.draft = std::move(next);
  return out;
}

}  // namespace pen::milter
