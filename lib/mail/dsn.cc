#include "lib/mail/dsn.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "lib/mail/command.h"
#include "lib/mail/expanded.h"

namespace pen::mail {
namespace {

constexpr std::size_t kTextWidth = 76;

bool ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Length of the well-formed UTF-8 sequence at the start of text; 0: none (RFC 3629).
std::size_t utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
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

bool good(Action action) { return action != Action::deferred && action != Action::failed; }

std::string_view action_word(Action action, DsnKind kind, Purpose purpose) {
  if (kind == DsnKind::delay) return "delayed";
  // Postfix's words: nothing was done, and RFC 3464 has none for what would be. An alias that became several was so.
  if (purpose == Purpose::probe && action != Action::expanded) return good(action) ? "deliverable" : "undeliverable";
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
  std::string shown(address);
  if (!iequals(type, "utf-8"))
    shown = decode_xtext(address).value_or(std::move(shown));
  else if (!utf8 && valid_utf8(address))
    shown = escape_utf8(address);
  return fmt::format("{}; {}", type, clean(shown, utf8));
}

/// A field of the status part, folded so that no line grows beyond what a mail line may have.
void field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fold(out, fmt::format("{}: {}", name, value), "    ");
}

const NoticeTemplate& of_kind(const NoticeTemplates& templates, DsnKind kind) {
  switch (kind) {
    case DsnKind::failure:
      return templates.failure;
    case DsnKind::delay:
      return templates.delay;
    case DsnKind::success:
      return templates.success;
    case DsnKind::verify:
      return templates.verify;
  }
  return templates.failure;
}

/// The template for this report. Addresses in UTF-8 stand beside its text, so it must be no other character set.
const NoticeTemplate& words(const DsnSettings& settings, DsnKind kind, bool utf8) {
  const NoticeTemplate& wanted = of_kind(settings.templates, kind);
  const bool fits = !utf8 || iequals(wanted.charset, "us-ascii") || iequals(wanted.charset, "utf-8");
  return fits ? wanted : of_kind(settings.plain, kind);
}

/// A From: value with the origin put after an address that has no domain: "MAILER-DAEMON (name)", "name
/// <MAILER-DAEMON>".
std::string qualified(std::string_view from, std::string_view origin) {
  const auto open = from.find('<');
  const auto begin = open == std::string_view::npos ? 0 : open + 1;
  const auto end = std::min(from.find_first_of(open == std::string_view::npos ? " \t(" : ">", begin), from.size());
  if (from.substr(begin, end - begin).contains('@')) return std::string(from);
  return fmt::format("{}@{}{}", from.substr(0, end), origin, from.substr(end));
}

/// mail_name as part of a field's name.
std::string field_word(std::string_view mail_name) {
  std::string word;
  for (const char c : mail_name.substr(0, 60))
    if (ascii_alnum(c) || c == '-') word += c;
  return word.empty() ? "Penstock" : word;
}

/// In front of the words about one recipient: what they are, in a report that has good news and bad.
std::string what_it_is(const DsnRequest& request, const DsnRecipient& r) {
  if (request.kind != DsnKind::verify) return {};
  const Action action = r.status.action;
  const std::string via =
      good(action) && !r.status.remote_mta.empty() ? " via " + clean(r.status.remote_mta, false) : std::string();
  std::string_view word = action_word(action, request.kind, request.original->purpose);
  if (action == Action::deferred && request.original->purpose == Purpose::probe) word = "undeliverable for now";
  return fmt::format("{}{}: ", word, via);
}

void explain(std::string& out, const DsnRequest& request, std::string_view words, bool utf8) {
  for (std::size_t at = 0; at < words.size();) {
    const auto lf = std::min(words.find('\n', at), words.size());
    out += words.substr(at, lf - at);
    out += "\r\n";
    at = lf + 1;
  }
  for (const auto& r : request.recipients) {
    std::string text = fmt::format("<{}>", clean(r.recipient.address, utf8));
    if (r.recipient.shown_original() != r.recipient.address)
      text += fmt::format(" (expanded from <{}>)", clean(r.recipient.original, utf8));
    text += ": ";
    text += what_it_is(request, r);
    text += clean(r.status.text.empty() ? r.status.dsn : r.status.text, utf8);
    out += "\r\n";
    fold(out, text, "    ");
  }
}

void status_part(std::string& out, const DsnRequest& request, const DsnSettings& settings, bool utf8) {
  const Envelope& original = *request.original;
  field(out, "Reporting-MTA", "dns; " + settings.hostname);
  if (!original.envid.empty()) field(out, "Original-Envelope-Id", clean(original.envid, utf8));
  const std::string ours = field_word(settings.mail_name);
  field(out, fmt::format("X-{}-Queue-ID", ours), clean(original.queue_id, false));
  if (!original.sender.empty()) field(out, fmt::format("X-{}-Sender", ours), typed_address(original.sender, utf8));
  if (original.arrival > WallTime{}) field(out, "Arrival-Date", rfc5322_date(original.arrival));
  for (const auto& r : request.recipients) {
    out += "\r\n";
    if (!r.recipient.orcpt.empty())
      field(out, "Original-Recipient", original_recipient(r.recipient.orcpt, utf8));
    else if (r.recipient.shown_original() != r.recipient.address)
      field(out, "Original-Recipient", typed_address(r.recipient.original, utf8));
    field(out, "Final-Recipient", typed_address(r.recipient.address, utf8));
    field(out, "Action", action_word(r.status.action, request.kind, original.purpose));
    field(out, "Status", clean(r.status.dsn.empty() ? "5.0.0" : r.status.dsn, false));
    if (!r.status.remote_mta.empty()) field(out, "Remote-MTA", "dns; " + clean(r.status.remote_mta, false));
    if (!r.status.diagnostic.empty())
      field(out, "Diagnostic-Code", clean(r.status.diagnostic, utf8));
    else if (request.kind != DsnKind::success)
      field(out, "Diagnostic-Code", fmt::format("X-{}; {}", ours, clean(r.status.text, utf8)));
    if (r.when > WallTime{}) field(out, "Last-Attempt-Date", rfc5322_date(r.when));
    if (request.kind == DsnKind::delay && request.will_retry_until > WallTime{})
      field(out, "Will-Retry-Until", rfc5322_date(request.will_retry_until));
  }
}

}  // namespace

std::vector<DsnRecipient> dsn_due(DsnKind kind, const Envelope& original, std::span<const DsnRecipient> recipients) {
  std::vector<DsnRecipient> due;
  if (original.sender.empty()) return due;
  for (const auto& r : recipients) {
    const std::uint8_t n = r.recipient.notify;
    if ((n & notify::kNever) && kind != DsnKind::verify) continue;
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
      case DsnKind::verify:
        wanted = (n & notify::kCopy) == 0;
        break;
    }
    if (wanted) due.push_back(r);
  }
  return due;
}

DsnReport build_dsn(const DsnRequest& request, const DsnSettings& settings, Random& random) {
  PEN_CHECK(request.original != nullptr && !request.recipients.empty());
  const Envelope& original = *request.original;
  const bool to_postmaster = !request.postmaster.empty();
  PEN_CHECK(to_postmaster || !original.sender.empty(), "no report to the null sender");

  // RFC 3461 section 4.3: RET speaks of failures only; other reports carry the header. BINARYMIME
  // content could only travel as BINARYMIME, which the way back may not offer. REQUIRETLS: RFC 8689
  // section 5.
  const bool headers_only = request.kind != DsnKind::failure || request.headers_only || original.ret == Ret::headers ||
                            original.body.size > settings.size_limit || original.body_type == BodyType::binary_mime ||
                            original.requiretls == RequireTls::yes;
  const bool eight_bit_original = original.body.eight_bit_header || (!headers_only && original.body.eight_bit_body);
  bool utf8 = false;
  if (original.smtputf8) {
    utf8 = original.body.eight_bit_header || !ascii(original.sender);
    for (const auto& r : request.recipients) utf8 = utf8 || !ascii(r.recipient.address) || !ascii(r.recipient.original);
  }

  DsnReport report;
  report.envelope.arrival = request.now;
  report.envelope.smtputf8 = utf8;
  report.envelope.body_type = utf8 || eight_bit_original ? BodyType::eight_bit_mime : BodyType::unspecified;
  // RFC 8689 section 5: a notice is as private as what it is about, or, with nothing but the header in it, "redacted".
  if (original.requiretls == RequireTls::yes && !settings.redact_requiretls)
    report.envelope.requiretls = RequireTls::yes;
  const NoticeTemplate& notice = words(settings, request.kind, utf8);
  const bool eight_bit_text = utf8 || !ascii(notice.text);
  if (eight_bit_text) report.envelope.body_type = BodyType::eight_bit_mime;
  if (to_postmaster) report.envelope.sender = request.postmaster_from;
  Recipient to;
  to.address = to_postmaster ? request.postmaster : original.sender;
  if (!to_postmaster) to.notify = notify::kNever;  // RFC 3461 section 6.2; the log tells of the postmaster's
  report.envelope.recipients.push_back(std::move(to));

  const std::string boundary = fmt::format("{:016X}.{:016X}/{}", random.next(), random.next(), settings.hostname);
  report.envelope.message_id =
      fmt::format("<{}.{:016X}@{}>", unix_seconds(request.now), random.next(), settings.hostname);

  std::string& out = report.before;
  const std::string date = rfc5322_date(request.now);
  out += fmt::format("Date: {}\r\n", date);
  out += fmt::format("From: {}\r\n", qualified(notice.from.empty() ? settings.from : notice.from, settings.origin));
  out += fmt::format("Subject: {}\r\n",
                     to_postmaster && !notice.postmaster_subject.empty() ? notice.postmaster_subject : notice.subject);
  out += fmt::format("To: {}\r\n",
                     to_postmaster ? qualified(request.postmaster, settings.origin) : clean(original.sender, utf8));
  if (settings.threaded && original.message_id.size() > 2 && original.message_id.starts_with('<') &&
      original.message_id.ends_with('>')) {
    const std::string id = clean(original.message_id, utf8);
    out += fmt::format("In-Reply-To: {}\r\nReferences: {}\r\n", id, id);
  }
  if (original.requiretls == RequireTls::no) out += "TLS-Required: No\r\n";
  out += "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n";
  out += fmt::format("Content-Type: multipart/report; report-type={}delivery-status;\r\n\tboundary=\"{}\"\r\n",
                     utf8 ? "global-" : "", boundary);
  const std::string_view encoding = eight_bit_text || eight_bit_original ? "8bit" : "7bit";
  out += fmt::format("Content-Transfer-Encoding: {}\r\n", encoding);
  out += fmt::format("Message-ID: {}\r\n", report.envelope.message_id);
  out += "\r\nThis is a MIME-encapsulated message.\r\n";

  out += fmt::format(
      "\r\n--{}\r\nContent-Description: Notification\r\nContent-Type: text/plain; charset={}\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, utf8 ? "utf-8" : notice.charset, eight_bit_text ? "8bit" : "7bit");
  // The text is for senders; the postmaster knows what it says (bounce(5)).
  explain(out, request, to_postmaster ? std::string_view() : notice.text, utf8);

  out += fmt::format(
      "\r\n--{}\r\nContent-Description: {}\r\nContent-Type: message/{}delivery-status\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, request.kind == DsnKind::delay ? "Delayed delivery report" : "Delivery report", utf8 ? "global-" : "",
      utf8 ? "8bit" : "7bit");
  status_part(out, request, settings, utf8);

  std::string_view type;
  if (headers_only)
    type = utf8 ? "message/global-headers" : "text/rfc822-headers";
  else
    type = utf8 ? "message/global" : "message/rfc822";
  out += fmt::format(
      "\r\n--{}\r\nContent-Description: {}{}\r\nContent-Type: {}\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      boundary, request.kind == DsnKind::failure ? "Undelivered Message" : "Message", headers_only ? " Headers" : "",
      type, eight_bit_original ? "8bit" : "7bit");
  report.original_bytes = headers_only ? original.body.header_size : original.body.size;
  report.after = fmt::format("\r\n--{}--\r\n", boundary);
  return report;
}

}  // namespace pen::mail
