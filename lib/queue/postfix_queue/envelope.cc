#include "lib/queue/postfix_queue/envelope.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/command.h"
#include "lib/mail/verp.h"

namespace pen::postfix_queue {
namespace {

// What RFC 3461 permits for ENVID is 100; Postfix keeps longer ones of its own users.
constexpr std::size_t kMaxText = 1024;

bool clean(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 32 || c == 127; });
}

/// Text for a field that only informs: without what it may not hold.
std::string informs(std::string_view text) {
  std::string out(text.substr(0, kMaxText));
  std::ranges::replace_if(out, [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return out;
}

Result<void> check_address(std::string_view what, std::string_view address) {
  if (address.size() <= mail::kMaxPath && clean(address)) return {};
  return fail(FileError::damaged, fmt::format("{} {}", what, printable(address, 100)));
}

std::uint8_t notify_of(unsigned bits) {
  if ((bits & notify::kNever) != 0) return mail::notify::kNever;
  unsigned out = 0;
  if ((bits & notify::kSuccess) != 0) out |= mail::notify::kSuccess;
  if ((bits & notify::kFailure) != 0) out |= mail::notify::kFailure;
  if ((bits & notify::kDelay) != 0) out |= mail::notify::kDelay;
  return static_cast<std::uint8_t>(out);
}

/// "rfc822;text" with the text in xtext; empty: it has another form.
std::string orcpt_of(std::string_view text) {
  const auto semicolon = text.find(';');
  if (semicolon == std::string_view::npos || semicolon == 0 || text.size() > mail::kMaxPath) return {};
  const auto type = text.substr(0, semicolon);
  if (!std::ranges::all_of(type, [](char c) { return ascii_alnum(c) || c == '-'; })) return {};
  return std::string(type) + ";" + mail::encode_xtext(text.substr(semicolon + 1));
}

mail::Client client_of(const QueueFile& file) {
  // The client itself where a filter stood between; what older versions wrote has the one kind only.
  const auto either = [&](std::string_view first, std::string_view second) {
    const auto value = file.attribute(first);
    return informs(value.empty() ? file.attribute(second) : value);
  };
  mail::Client c;
  c.name = either("client_name", "log_client_name");
  c.address = either("client_address", "log_client_address");
  c.port = static_cast<std::uint16_t>(
      std::min(parse_unsigned(either("client_port", "log_client_port")).value_or(0), 65535ULL));
  c.helo = either("helo_name", "log_helo_name");
  c.protocol = either("protocol_name", "log_protocol_name");
  c.reverse_name = either("reverse_client_name", "log_client_name");
  c.sasl_method = informs(file.attribute("sasl_method"));
  c.sasl_username = informs(file.attribute("sasl_username"));
  c.sasl_sender = informs(file.attribute("sasl_sender"));
  if (c.protocol.empty()) c.protocol = "local";
  return c;
}

}  // namespace

Result<Taken> envelope_of(const QueueFile& file, std::string queue_id) {
  Taken t;
  mail::Envelope& e = t.envelope;
  e.queue_id = std::move(queue_id);
  e.arrival = file.arrival.value_or(WallTime{});
  PEN_TRY(check_address("sender", file.sender));
  e.sender = file.sender;
  e.envid = informs(file.envid);
  e.ret = (file.ret & kRetHeaders) != 0 ? mail::Ret::headers
          : (file.ret & kRetFull) != 0  ? mail::Ret::full
                                        : mail::Ret::unspecified;
  const auto encoding = file.attribute("encoding");
  e.body_type = encoding == "8bit"   ? mail::BodyType::eight_bit_mime
                : encoding == "7bit" ? mail::BodyType::seven_bit
                                     : mail::BodyType::unspecified;
  e.smtputf8 = file.smtputf8 != 0;
  e.client = client_of(file);
  PEN_TRY(check_address("filter", file.filter));
  e.filter = file.filter;
  for (std::size_t i = 0; i < file.recipients.size(); ++i) {
    const Recipient& r = file.recipients[i];
    if (r.done) continue;
    if (r.address.empty()) return fail(FileError::damaged, "a recipient without an address");
    PEN_TRY(check_address("recipient", r.address));
    PEN_TRY(check_address("original recipient", r.original));
    mail::Recipient out{
        .address = r.address, .original = {}, .orcpt = orcpt_of(r.orcpt), .notify = notify_of(r.notify)};
    if (!r.original.empty() && r.original != r.address) out.original = r.original;
    if (!r.orcpt.empty() && out.orcpt.empty()) t.lost.push_back("an ORCPT that is none");
    e.recipients.push_back(std::move(out));
    t.from.push_back(i);
  }
  if (!file.redirect.empty() && !e.recipients.empty()) {
    PEN_TRY(check_address("redirect", file.redirect));
    e.recipients.resize(1);
    t.from.resize(1);
    if (e.recipients[0].original.empty()) e.recipients[0].original = e.recipients[0].address;
    e.recipients[0].address = file.redirect;
  }
  // What nobody could have set is left out: the sender is then the same for all recipients.
  if (mail::verp_delimiters(file.verp, "!#$%&'*+-/=?^_`{|}~."))
    e.verp = file.verp;
  else if (!file.verp.empty())
    t.lost.push_back("VERP: its sender is the same for all recipients");
  return t;
}

void ContentTaker::take(std::string_view part, bool line_ends) {
  scanner_.feed(part, lines_);
  if (line_ends) scanner_.feed("\r\n", lines_);
}

void ContentTaker::pass(std::string_view part) {
  if (part.empty()) return;
  facts_.text(part);
  write_(part);
}

void ContentTaker::decide(bool whole) {
  using Line = mail::HeaderScanner::Line;
  const Line kind = mail::HeaderScanner::classify(line_, whole, first_);
  if (kind == Line::separator) facts_.end_of_header_after_separator();
  if (kind == Line::body || kind == Line::undecided) facts_.end_of_header();
  in_header_ = kind == Line::field || kind == Line::continuation;
  if (in_header_) header_.line(line_, kind);
  decided_ = true;
  pass(line_);
  line_.clear();
}

void ContentTaker::text(std::string_view part) {
  if (!in_header_ || decided_) return pass(part);
  line_ += part;
  if (line_.size() >= mail::HeaderScanner::kDecide) decide(false);
}

void ContentTaker::line_end() {
  if (in_header_ && !decided_) decide(true);
  facts_.line_end();
  write_("\r\n");
  decided_ = first_ = false;
}

mail::BodyFacts ContentTaker::finish() {
  scanner_.finish(lines_);
  return std::move(facts_).finish();
}

}  // namespace pen::postfix_queue
