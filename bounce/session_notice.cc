#include "bounce/session_notice.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/mail/named_address.h"
#include "lib/mail/transcript.h"
#include "lib/receive/intake/derived.h"

namespace pen::bounce {
namespace {

using ipc::session_errors::Role;
using ipc::session_errors::Session;

constexpr std::size_t kWidth = 78;
constexpr std::size_t kMaxPeer = 300;
// twice a transcript's own limit, because another program sends it
constexpr std::size_t kMaxText = 2 * mail::Transcript::kMost;

std::string_view who(Role role) {
  switch (role) {
    case Role::smtp_server:
      return "SMTP server";
    case Role::smtp_client:
      return "SMTP client";
    case Role::lmtp_client:
      return "LMTP client";
  }
  return "SMTP";
}

/// Adds a line indented, so that no line of the peer's looks like ours; long lines continue with a deeper indent.
void add_line(std::string& out, std::string_view line) {
  std::string_view indent = " ";
  do {
    std::size_t end = line.size();
    if (end > kWidth) {
      end = line.rfind(' ', kWidth);
      if (end == std::string_view::npos || end == 0) end = kWidth;
    }
    out += indent;
    out += line.substr(0, end);
    out += "\r\n";
    line.remove_prefix(end);
    if (line.starts_with(' ')) line.remove_prefix(1);
    indent = "     ";
  } while (!line.empty());
}

const std::string& recipient_of(const Session& session, const SessionNoticeSettings& settings) {
  return mail::ErrorClasses::from_bits(session.classes).has(mail::ErrorClass::bounce) ? settings.bounces_to
                                                                                      : settings.errors_to;
}

std::string qualified(const std::string& address, const std::string& origin) {
  return address.find('@') == std::string::npos ? address + "@" + origin : address;
}

}  // namespace

bool Allowance::take(SteadyTime now) {
  if (filled_ == SteadyTime{}) filled_ = now;
  const auto more = (now - filled_) / kEvery;
  if (more > 0) {
    left_ = static_cast<int>(std::min<std::int64_t>(kAtOnce, left_ + more));
    filled_ += more * kEvery;
  }
  if (left_ == 0) {
    ++left_out_;
    return false;
  }
  --left_;
  return true;
}

std::string session_notice(const Session& session, const SessionNoticeSettings& settings, std::string_view message_id,
                           WallTime now, std::uint64_t left_out) {
  const std::string peer = printable(session.peer, kMaxPeer);
  const auto named = [&](std::string_view name, const std::string& address) {
    return mail::named_address(name, qualified(address, settings.origin), settings.obsolete_from);
  };
  std::string out = fmt::format(
      "Date: {}\r\nFrom: {}\r\nTo: {}\r\n"
      "Subject: {} {}: errors from {}\r\nMessage-ID: {}\r\nAuto-Submitted: auto-generated\r\n\r\n",
      rfc5322_date(now), named("Mail Delivery System", "MAILER-DAEMON"),
      named("Postmaster", recipient_of(session, settings)), printable(settings.mail_name), who(session.role), peer,
      message_id);
  out += fmt::format("Errors of class {} in a session with {}.\r\n",
                     mail::shown(mail::ErrorClasses::from_bits(session.classes)), peer);
  if (!session.transcript.empty()) {
    out += "\r\nTranscript of session follows.\r\n\r\n";
    std::string_view text = session.transcript;
    text = text.substr(0, kMaxText);
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      add_line(out, printable(text.substr(0, end), kMaxText));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  if (!session.reason.empty()) out += fmt::format("\r\nSession aborted, reason: {}\r\n", printable(session.reason));
  if (left_out > 0)
    out += fmt::format("\r\nBefore this there were {} more such sessions without a notice.\r\n", left_out);
  out += "\r\nFor other details, see the local mail log.\r\n";
  return out;
}

Allowance& SessionNotices::allowance_for(mail::ErrorClasses classes) {
  if (classes.has(mail::ErrorClass::resource)) return resource_;
  if (classes.has(mail::ErrorClass::software)) return software_;
  return others_;
}

async::Task<void> SessionNotices::send(Session session) {
  if (recipient_of(session, settings_).empty()) co_return;
  Allowance& allowance = allowance_for(mail::ErrorClasses::from_bits(session.classes));
  if (!allowance.take(intake_.loop.now())) co_return;
  const WallTime now = intake_.loop.clock().wall_now();
  const std::uint64_t left_out = allowance.take_left_out();
  intake::Derived derived;
  derived.envelope.sender = settings_.sender;
  derived.envelope.client.protocol = "local";
  derived.keep_sender = true;
  derived.own = settings_.own;
  mail::Recipient to;
  to.address = recipient_of(session, settings_);
  to.notify = mail::notify::kNever;
  derived.envelope.recipients.push_back(std::move(to));
  derived.envelope.message_id = fmt::format("<{}.{:016X}@{}>", unix_seconds(now), random_.next(), settings_.hostname);
  derived.before = session_notice(session, settings_, derived.envelope.message_id, now, left_out);
  const async::Until until{.deadline = intake_.loop.now() + intake_.settings.enqueue_timeout};
  const auto queued = co_await intake::enqueue_derived(intake_, std::move(derived), until);
  const std::string peer = printable(session.peer, kMaxPeer);
  if (!queued) {
    allowance.leave_out(left_out + 1);  // this session too
    log::warning("postmaster notice of errors from {}: {}", peer, queued.error().context());
    co_return;
  }
  ++sent_;
  log::info("{}: postmaster notice of errors from {}", *queued, peer);
}

}  // namespace pen::bounce
