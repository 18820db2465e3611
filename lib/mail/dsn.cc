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

/// Makes text fit for a line of the report: no control bytes, 8-bit only as UTF-8 and only where permitted, bounded.
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
  // Postfix's words for a probe: nothing was delivered, and RFC 3464 has no words for what would happen. An alias
  // really was expanded.
  if (is_probe(purpose) && action != Action::expanded) return good(action) ? "deliverable" : "undeliverable";
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

/// Turns "addr-type;xtext" as received into "addr-type; address"; a value of another form is dropped.
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

/// A field of the status part, folded so that no line exceeds the length of a mail line.
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

/// The template for this report. Addresses in UTF-8 stand beside its text, so its character set must fit them.
const NoticeTemplate& words(const DsnSettings& settings, DsnKind kind, bool utf8) {
  const NoticeTemplate& wanted = of_kind(settings.templates, kind);
  const bool fits = !utf8 || iequals(wanted.charset, "us-ascii") || iequals(wanted.charset, "utf-8");
  return fits ? wanted : of_kind(settings.plain, kind);
}

/// A From: value with the origin appended to an address without a domain: "MAILER-DAEMON (name)", "name
/// <MAILER-DAEMON>".
std::string qualified(std::string_view from, std::string_view origin) {
  const auto open = from.find('<');
  const auto begin = open == std::string_view::npos ? 0 : open + 1;
  const auto end = std::min(from.find_first_of(open == std::string_view::npos ? " \t(" : ">", begin), from.size());
  if (from.substr(begin, end - begin).contains('@')) return std::string(from);
  return fmt::format("{}@{}{}", from.substr(0, end), origin, from.substr(end));
}

/// mail_name in a form that fits into a field's name.
std::string field_word(std::string_view mail_name) {
  std::string word;
  for (const char c : mail_name.substr(0, 60))
    if (ascii_alnum(c) || c == '-') word += c;
  return word.empty() ? "Penstock" : word;
}

/// An introduction to the words about one recipient, for a report with good and bad news.
std::string what_it_is(const DsnRequest& request, const DsnRecipient& r) {
  if (request.kind != DsnKind::verify) return {};
  const Action action = r.status.action;
  const std::string via =
      good(action) && !r.status.remote_mta.empty() ? " via " + clean(r.status.remote_mta, false) : std::string();
  std::string_view word = action_word(action, request.kind, request.original->purpose);
  if (action == Action::deferred && is_probe(request.original->purpose)) word = "undeliverable for now";
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
  // RFC 4865
  if (!original.release_request.empty()) field(out, "Future-Release-Request", clean(original.release_request, false));
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

/// What the parts of one report share.
struct Frame {
  const DsnRequest& request;
  const DsnSettings& settings;
  const NoticeTemplate& notice;
  bool utf8;                // a report with addresses or a header beyond ASCII: RFC 6533
  bool headers_only;        // what it returns of the original
  bool eight_bit_original;  // that has 8-bit characters
  bool eight_bit_text;      // the words for people do
  std::string boundary;
  bool to_postmaster() const { return !request.postmaster.empty(); }
};

/// RFC 3461 section 4.3: RET is about failures only; other reports carry just the header. BINARYMIME content could only
/// travel as BINARYMIME, which the way back may not offer. REQUIRETLS: RFC 8689 section 5.
bool returns_header_only(const DsnRequest& request, const DsnSettings& settings) {
  const Envelope& original = *request.original;
  return request.kind != DsnKind::failure || request.headers_only || original.ret == Ret::headers ||
         original.body.size > settings.size_limit || original.body_type == BodyType::binary_mime ||
         original.requiretls == RequireTls::yes;
}

bool needs_utf8(const DsnRequest& request) {
  const Envelope& original = *request.original;
  if (!original.smtputf8) return false;
  return original.body.eight_bit_header || !ascii(original.sender) ||
         std::ranges::any_of(request.recipients, [](const DsnRecipient& r) {
           return !ascii(r.recipient.address) || !ascii(r.recipient.original);
         });
}

Envelope envelope_of(const Frame& f, Random& random) {
  const Envelope& original = *f.request.original;
  Envelope out;
  out.arrival = f.request.now;
  out.smtputf8 = f.utf8;
  out.body_type = f.utf8 || f.eight_bit_original || f.eight_bit_text ? BodyType::eight_bit_mime : BodyType::unspecified;
  // RFC 8689 section 5: a notice needs the same privacy as the original, or holds no more of it than the header
  // ("redacted").
  if (original.requiretls == RequireTls::yes && !f.settings.redact_requiretls) out.requiretls = RequireTls::yes;
  if (f.to_postmaster()) out.sender = f.request.postmaster_from;
  Recipient to;
  to.address = f.to_postmaster() ? f.request.postmaster : original.sender;
  // RFC 3461 section 6.2; a failure of the postmaster's notice is logged.
  if (!f.to_postmaster()) to.notify = notify::kNever;
  out.recipients.push_back(std::move(to));
  out.message_id = fmt::format("<{}.{:016X}@{}>", unix_seconds(f.request.now), random.next(), f.settings.hostname);
  return out;
}

void header(std::string& out, const Frame& f, const std::string& message_id) {
  const Envelope& original = *f.request.original;
  const NoticeTemplate& notice = f.notice;
  const std::string& origin = f.settings.origin;
  const bool other_subject = f.to_postmaster() && !notice.postmaster_subject.empty();
  out += fmt::format("Date: {}\r\n", rfc5322_date(f.request.now));
  out += fmt::format("From: {}\r\n", qualified(notice.from.empty() ? f.settings.from : notice.from, origin));
  out += fmt::format("Subject: {}\r\n", other_subject ? notice.postmaster_subject : notice.subject);
  out += fmt::format("To: {}\r\n",
                     f.to_postmaster() ? qualified(f.request.postmaster, origin) : clean(original.sender, f.utf8));
  if (f.settings.threaded && original.message_id.size() > 2 && original.message_id.starts_with('<') &&
      original.message_id.ends_with('>')) {
    const std::string id = clean(original.message_id, f.utf8);
    out += fmt::format("In-Reply-To: {}\r\nReferences: {}\r\n", id, id);
  }
  if (original.requiretls == RequireTls::no) out += "TLS-Required: No\r\n";
  out += "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n";
  out += fmt::format("Content-Type: multipart/report; report-type={}delivery-status;\r\n\tboundary=\"{}\"\r\n",
                     f.utf8 ? "global-" : "", f.boundary);
  out += fmt::format("Content-Transfer-Encoding: {}\r\n", f.eight_bit_text || f.eight_bit_original ? "8bit" : "7bit");
  out += fmt::format("Message-ID: {}\r\n", message_id);
}

/// The line before a part, and the part's header.
void begin_part(std::string& out, const Frame& f, std::string_view description, std::string_view type, bool eight_bit) {
  out += fmt::format(
      "\r\n--{}\r\nContent-Description: {}\r\nContent-Type: {}\r\n"
      "Content-Transfer-Encoding: {}\r\n\r\n",
      f.boundary, description, type, eight_bit ? "8bit" : "7bit");
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
  PEN_CHECK(!request.postmaster.empty() || !original.sender.empty(), "no report to the null sender");
  const bool utf8 = needs_utf8(request);
  const bool headers_only = returns_header_only(request, settings);
  const NoticeTemplate& notice = words(settings, request.kind, utf8);
  const Frame f{.request = request,
                .settings = settings,
                .notice = notice,
                .utf8 = utf8,
                .headers_only = headers_only,
                .eight_bit_original = original.body.eight_bit_header || (!headers_only && original.body.eight_bit_body),
                .eight_bit_text = utf8 || !ascii(notice.text),
                .boundary = fmt::format("{:016X}.{:016X}/{}", random.next(), random.next(), settings.hostname)};

  DsnReport report;
  report.envelope = envelope_of(f, random);
  std::string& out = report.before;
  header(out, f, report.envelope.message_id);
  out += "\r\nThis is a MIME-encapsulated message.\r\n";

  const std::string_view charset = utf8 ? std::string_view("utf-8") : std::string_view(notice.charset);
  begin_part(out, f, "Notification", fmt::format("text/plain; charset={}", charset), f.eight_bit_text);
  // The text is for senders; the postmaster knows what it says (bounce(5)).
  explain(out, request, f.to_postmaster() ? std::string_view() : notice.text, utf8);

  begin_part(out, f, request.kind == DsnKind::delay ? "Delayed delivery report" : "Delivery report",
             utf8 ? "message/global-delivery-status" : "message/delivery-status", utf8);
  status_part(out, request, settings, utf8);

  std::string_view type;
  if (headers_only)
    type = utf8 ? "message/global-headers" : "text/rfc822-headers";
  else
    type = utf8 ? "message/global" : "message/rfc822";
  begin_part(out, f,
             fmt::format("{}{}", request.kind == DsnKind::failure ? "Undelivered Message" : "Message",
                         headers_only ? " Headers" : ""),
             type, f.eight_bit_original);
  report.original_bytes = headers_only ? original.body.header_size : original.body.size;
  report.after = fmt::format("\r\n--{}--\r\n", f.boundary);
  return report;
}

}  // namespace pen::mail
