#include "lib/mail/dsn.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::mail {
namespace {

constexpr std::size_t kTextWidth = 76;

bool ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Length of the well-formed UTF-8 sequence at the start of text; 0: none (RFC 3629).
std::size_t utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (at(i) & 0xC0U) == 0x80U; };
  const unsigned a = at(0);
  if (a >= 0xC2 && a <= 0xDF) return tail(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    const bool overlong = a == 0xE0 && at(1) < 0xA0;
    const bool surrogate = a == 0xED && at(1) > 0x9F;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool overlong = a == 0xF0 && at(1) < 0x90;
    const bool beyond = a == 0xF4 && at(1) > 0x8F;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

/// Fit for a line of the report: no control bytes, 8-bit only as UTF-8 and only where permitted, bounded.
std::string clean(std::string_view text, bool utf8) {
  if (!utf8) return printable(text, kMaxText);
  std::string out;
  while (!text.empty()) {
    if (out.size() >= kMaxText) return out + "...";
    const char c = text.front();
    std::size_t n = 1;
    if (static_cast<unsigned char>(c) >= 0x80) n = utf8_sequence(text);
    if (n == 0 || (n == 1 && (c < 32 || c == 127))) {
      out.push_back('?');
      n = 1;
    } else {
      out.append(text.substr(0, n));
    }
    text.remove_prefix(n);
  }
  return out;
}

/// Appends text broken at spaces into lines; every line after the first starts with indent.
void fold(std::string& out, std::string_view text, std::string_view indent) {
  std::size_t column = 0;
  bool first = true;
  for (const auto word : split(text, " ")) {
    if (!first && column + 1 + word.size() > kTextWidth) {
      out += "\r\n";
      out += indent;
      column = indent.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += "\r\n";
}

std::string_view action_word(Action action, DsnKind kind) {
  if (kind == DsnKind::delay) return "delayed";
  switch (action) {
    case Action::delivered:
      return "delivered";
    case Action::deferred:
      return kind == DsnKind::failure ? "failed" : "delayed";
    case Action::failed:
      return "failed";
    case Action::relayed:
    case Action::transferred:
      return "relayed";
    case Action::expanded:
      return "expanded";
  }
  return "failed";
}

/// RFC 6533 section 3: a non-ASCII address has the type utf-8.
std::string typed_address(std::string_view address, bool utf8) {
  return fmt::format("{}; {}", utf8 && !ascii(address) ? "utf-8" : "rfc822", clean(address, utf8));
}

/// "addr-type;xtext" as received to "addr-type; address"; what is not of that form is dropped.
std::string original_recipient(std::string_view orcpt, bool utf8) {
  const auto semicolon = orcpt.find(';');
  if (semicolon == std::string_view::npos || semicolon == 0) return {};
  const auto type = trim(orcpt.substr(0, semicolon));
  if (!std::ranges::all_of(type, [](char c) { return ascii_alnum(c) || c == '-'; })) return {};
  const auto address = orcpt.substr(semicolon + 1);
  const bool is_utf8 = iequals(type, "utf-8");
  return fmt::format(
      "{}; {}", type,
      clean(is_utf8 ? std::string(address) : decode_xtext(address).value_or(std::string(address)),
            utf8));
}

/// A field of the status part, folded so that no line grows beyond what a mail line may have.
void field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fold(out, fmt::format("{}: {}", name, value), "    ");
}

std::string_view subject(DsnKind kind) {
  switch (kind) {
    case DsnKind::failure:
      return "Undelivered Mail Returned to Sender";
    case DsnKind::delay:
      return "Delayed Mail (still being retried)";
    case DsnKind::success:
      return "Successful Mail Delivery Report";
  }
  return "";
}

void explain(std::string& out, const DsnRequest& request, const DsnSettings& settings, bool utf8) {
  out += fmt::format("This is the mail system at host {}.\r\n\r\n", settings.hostname);
  switch (request.kind) {
    case DsnKind::failure:
      out +=
          "Your message could not be delivered to the recipients named below.\r\n"
          "It is returned with this notice, and it will not be tried again.\r\n\r\n"
          "If you need help, write to postmaster and include this report;\r\n"
          "your own text in the returned message may be left out.\r\n\r\n";
      break;
    case DsnKind::delay:
      out +=
          "THIS IS ONLY A WARNING: YOU DO NOT NEED TO SEND YOUR MESSAGE AGAIN.\r\n\r\n"
          "Your message has not yet been delivered to the recipients named below.\r\n";
      if (request.will_retry_until > WallTime{})
        out += fmt::format("It will be tried again until {}.\r\n",
                           rfc5322_date(request.will_retry_until));
      else
        out += "It will be tried again.\r\n";
      out += "\r\nIf you need help, write to postmaster and include this report.\r\n\r\n";
      break;
    case DsnKind::success:
      out +=
          "Your message was handed to the recipients named below, as you asked to be told.\r\n"
          "Where it says that the message was relayed, the next mail system does not send\r\n"
          "such reports, and no further one may come.\r\n\r\n";
      break;
  }
  out += fmt::format("                   The mail system ({})\r\n", settings.mail_name);
  for (const auto& r : request.recipients) {
    std::string text = fmt::format("<{}>", clean(r.recipient.address, utf8));
    if (r.recipient.shown_original() != r.recipient.address)
      text += fmt::format(" (expanded from <{}>)", clean(r.recipient.original, utf8));
    text += ": ";
    text += clean(r.status.text.empty() ? r.status.dsn : r.status.text, utf8);
    out += "\r\n";
    fold(out, text, "    ");
  }
}

void status_part(std::string& out, const DsnRequest& request, const DsnSettings& settings,
                 bool utf8) {
  const Envelope& original = *request.original;
  field(out, "Reporting-MTA", "dns; " + settings.hostname);
  if (!original.envid.empty()) field(out, "Original-Envelope-Id", clean(original.envid, utf8));
  field(out, "X-Penstock-Queue-ID", clean(original.queue_id, false));
  field(out, "X-Penstock-Sender", typed_address(original.sender, utf8));
  if (original.arrival > WallTime{}) field(out, "Arrival-Date", rfc5322_date(original.arrival));
  for (const auto& r : request.recipients) {
    out += "\r\n";
    if (!r.recipient.orcpt.empty())
      field(out, "Original-Recipient", original_recipient(r.recipient.orcpt, utf8));
    else if (r.recipient.shown_original() != r.recipient.address)
      field(out, "Original-Recipient", typed_address(r.recipient.original, utf8));
    field(out, "Final-Recipient", typed_address(r.recipient.address, utf8));
    field(out, "Action", action_word(r.status.action, request.kind));
    field(out, "Status", clean(r.status.dsn.empty() ? "5.0.0" : r.status.dsn, false));
    if (!r.status.remote_mta.empty())
      field(out, "Remote-MTA", "dns; " + clean(r.status.remote_mta, false));
    if (!r.status.diagnostic.empty())
      field(out, "Diagnostic-Code", clean(r.status.diagnostic, utf8));
    else if (request.kind != DsnKind::success)
      field(out, "Diagnostic-Code", "X-Penstock; " + clean(r.status.text, utf8));
    if (r.when > WallTime{}) field(out, "Last-Attempt-Date", rfc5322_date(r.when));
    if (request.kind == DsnKind::delay && request.will_retry_until > WallTime{})
      field(out, "Will-Retry-Until", rfc5322_date(request.will_retry_until));
  }
}

}  // namespace

std::vector<DsnRecipient> dsn_due(DsnKind kind, const Envelope& original,
                                  std::span<const DsnRecipient> recipients) {
  std::vector<DsnRecipient> due;
  if (original.sender.empty()) return due;
  for (const auto& r : recipients) {
    const std::uint8_t n = r.recipient.notify;
    if (n & notify::kNever) continue;
    bool wanted = false;
    switch (kind) {
      case DsnKind::failure:
        wanted = n == 0 || (n & notify::kFailure);
        break;
      case DsnKind::delay:
        wanted = n == 0 || (n & notify::kDelay);
        break;
      case DsnKind::success:
        wanted = (n & notify::kSuccess) != 0;
        break;
    }
    if (wanted) due.push_back(r);
  }
  return due;
}

DsnReport build_dsn(const DsnRequest& request, const DsnSettings& settings, Random& random) {
  PEN_CHECK(request.original != nullptr && !request.recipients.empty());
  const Envelope& original = *request.original;
  PEN_CHECK(!original.sender.empty(), "no report to the null sender");

  // RFC 3461 section 4.3: RET speaks of failures only; other reports carry the header. BINARYMIME
  // content could only travel as BINARYMIME, which the way back may not offer. REQUIRETLS: RFC 8689
  // section 5.
  const bool headers_only = request.kind != DsnKind::failure || original.ret == Ret::headers ||
                            original.body.size > settings.size_limit ||
                            original.body_type == BodyType::binary_mime ||
                            original.requiretls == RequireTls::yes;
  const bool eight_bit_original =
      original.body.eight_bit_header || (!headers_only && original.body.eight_bit_body);
  bool utf8 = false;
  if (original.smtputf8) {
    utf8 = original.body.eight_bit_header || !ascii(original.sender);
    for (const auto& r : request.recipients)
      utf8 = utf8 || !ascii(r.recipient.address) || !ascii(r.recipient.original);
  }

  DsnReport report;
  report.envelope.arrival = request.now;
  report.envelope.smtputf8 = utf8;
  report.envelope.body_type =
      utf8 || eight_bit_original ? BodyType::eight_bit_mime : BodyType::unspecified;
  // RFC 8689 section 5: a notice is as private as what it is about, or, with nothing but the header in it, "redacted".
  if (original.requiretls == RequireTls::yes && !settings.redact_requiretls)
    report.envelope.requiretls = RequireTls::yes;
  Recipient to;
  to.address = original.sender;
  to.notify = notify::kNever;
  report.envelope.recipients.push_back(std::move(to));

  const std::string boundary =
      fmt::format("{:016X}.{:016X}/{}", random.next(), random.next(), settings.hostname);
  report.envelope.message_id =
      fmt::format("<{}.{:016X}@{}>", unix_seconds(request.now), random.next(), settings.hostname);

  std::string& out = report.before;
  const std::string date = rfc5322_date(request.now);
  out += fmt::format("Date: {}\r\n", date);
  out += fmt::format("From: MAILER-DAEMON@{} (Mail Delivery System)\r\n", settings.origin);
  out += fmt::format("Subject: {}\r\n", subject(request.kind));
  out += fmt::format("To: {}\r\n", clean(original.sender, utf8));
  if (original.requiretls == RequireTls::no) out += "TLS-Required: No\r\n";
  out += "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n";
  out += fmt::format(
      "Content-Type: multipart/report; report-type={}delivery-status;\r\n\tboundary=\"{}\"\r\n",
      utf8 ? "global-" : "", boundary);
  const std::string_view encoding = utf8 || eight_bit_original ? "8bit" : "7bit";
  out += fmt::format("Content-Transfer-Encoding: {}\r\n", encoding);
  out += fmt::format("Message-ID: {}\r\n", report.envelope.message_id);
  out += "\r\nThis is a MIME-encapsulated message.\r\n";

  const std::string_view text_encoding = utf8 ? "8bit" : "7bit";
  out += fmt::format(
      "\r\n--{}\r\nContent-Description: Notification\r\nContent-Type: text/plain; charset={}\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, utf8 ? "utf-8" : "us-ascii", text_encoding);
  explain(out, request, settings, utf8);

  out += fmt::format(
      "\r\n--{}\r\nContent-Description: {}\r\nContent-Type: message/{}delivery-status\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, request.kind == DsnKind::delay ? "Delayed delivery report" : "Delivery report",
      utf8 ? "global-" : "", text_encoding);
  status_part(out, request, settings, utf8);

  std::string_view type;
  if (headers_only)
    type = utf8 ? "message/global-headers" : "text/rfc822-headers";
  else
    type = utf8 ? "message/global" : "message/rfc822";
  out += fmt::format(
      "\r\n--{}\r\nContent-Description: {}{}\r\nContent-Type: {}\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, request.kind == DsnKind::failure ? "Undelivered Message" : "Message",
      headers_only ? " Headers" : "", type, eight_bit_original ? "8bit" : "7bit");
  report.original_bytes = headers_only ? original.body.header_size : original.body.size;
  report.after = fmt::format("\r\n--{}--\r\n", boundary);
  return report;
}

}  // namespace pen::mail
