#include "smtpd/evaluation.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/mail/logged.h"
#include "smtpd/restrictions.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReply = 510;  // RFC 5321 section 4.5.3.1.5, without CRLF
std::string fitting(std::string reply) {
  if (reply.size() > kMaxReply) reply.resize(kMaxReply);
  return reply;
}
/// For the count of refusals: what a restriction is about. Those that do what a table or a server says are policy.
metrics::Reason reason_of(Check check) {
  using enum Check;
  using metrics::Reason;
  switch (check) {
    case reject_unauth_destination:
    case defer_unauth_destination:
    case permit_mx_backup:
      return Reason::relay;
    case reject_unlisted_recipient:
    case reject_unverified_recipient:
    case reject_non_fqdn_recipient:
    case reject_unknown_recipient_domain:
      return Reason::unknown_user;
    case reject_non_fqdn_sender:
    case reject_unknown_sender_domain:
    case reject_unlisted_sender:
    case reject_unverified_sender:
      return Reason::sender;
    case reject_unknown_client_hostname:
    case reject_unknown_reverse_client_hostname:
    case reject_unknown_forward_client_hostname:
    case reject_invalid_helo_hostname:
    case reject_non_fqdn_helo_hostname:
    case reject_unknown_helo_hostname:
      return Reason::client;
    case reject_rbl_client:
    case reject_rhsbl_client:
    case reject_rhsbl_reverse_client:
    case reject_rhsbl_helo:
    case reject_rhsbl_sender:
    case reject_rhsbl_recipient:
      return Reason::rbl;
    case reject_sender_login_mismatch:
    case reject_authenticated_sender_login_mismatch:
    case reject_known_sender_login_mismatch:
    case reject_unauthenticated_sender_login_mismatch:
      return Reason::sasl;
    case reject_plaintext_session:
      return Reason::tls;
    case check_sender_quota:
      return Reason::rate;
    case reject_unauth_pipelining:
    case reject_multi_recipient_bounce:
      return Reason::protocol;
    default:
      return Reason::policy;
  }
}

constexpr int kMaxDepth = 100;  // restriction classes within classes; Postfix's recursion limit

/// A restriction's function, as its row has it.
struct Handler {
  Evaluation::Answer (*at_once)(Evaluation&, const Restriction&, const Evaluation::Name&) = nullptr;
  async::Task<Evaluation::Answer> (*in_time)(Evaluation&, const Restriction&, const Evaluation::Name&) = nullptr;
  constexpr Handler(decltype(at_once) function) : at_once(function) {}
  constexpr Handler(decltype(in_time) function) : in_time(function) {}
};

const Handler& handler(Check check) {
  static constexpr Handler kHandlers[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying) &restrictions::name,
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
      &restrictions::restriction_class,
      &restrictions::unsupported,
      &restrictions::unknown,
  };
  static_assert(std::size(kHandlers) == static_cast<std::size_t>(Check::unknown) + 1);
  return kHandlers[static_cast<std::size_t>(check)];
}

}  // namespace

void Evaluation::log_line(std::string_view verb, std::string_view reply) const {
  std::string line = fmt::format("{}: {}: {} from {}: {};", subject.queue_id.empty() ? "NOQUEUE" : subject.queue_id,
                                 verb, subject.where, subject.client->peer.shown(), reply);
  if (subject.sender) line += fmt::format(" from=<{}>", mail::logged(*subject.sender));
  const std::string_view recipient = subject.recipient ? std::string_view(*subject.recipient) : std::string_view();
  if (subject.recipient) line += fmt::format(" to=<{}>", mail::logged(recipient));
  line += fmt::format(" proto={}", subject.client->protocol());
  if (!subject.client->helo.empty()) line += fmt::format(" helo=<{}>", subject.client->helo);
  if (subject.client->login) line += fmt::format(" sasl_username=<{}>", subject.client->login->username);
  log::info("{}", line);
  if (verb == "reject")
    tell_rejected(*subject.client, {.queue_id = subject.queue_id,
                                    .stage = subject.where,
                                    .reply = reply,
                                    .sender = subject.sender.value_or(""),
                                    .recipient = recipient});
}

Evaluation::Answer Evaluation::permits(std::string_view action, const Name& name, std::string_view table) {
  // What the lists defer in the end is not permitted. A table that cannot be read causes no log line.
  if (!policy.logged_permits.empty() && if_permit_.empty() && policy.logged_permits.matches(action).value_or(false))
    log_line("permit", fmt::format("action={} for {}={}{}{}", action, name.kind, name.value,
                                   table.empty() ? "" : " from ", table));
  return Answer::permit;
}

Evaluation::Answer Evaluation::refuse(int code, std::string_view dsn, const Name& name, std::string_view text,
                                      mail::ErrorClass error) {
  const bool warning = warn && error != mail::ErrorClass::data;  // an unreadable table says nothing about the client
  if (!if_reject_.empty() && code >= 500 && !warning) {  // a problem that may pass must not cause a permanent refusal
    reply_ = std::move(if_reject_);
    if_reject_.clear();
    error_ = error;
    log_line("reject", reply_);
    return Answer::reject;
  }
  if (policy.settings.soft_bounce && code >= 500) code -= 100;
  std::string status(dsn);
  if (!status.empty()) status[0] = code >= 500 ? '5' : '4';
  std::string reply = fmt::format("{} {} ", code, status);
  if (!name.value.empty() || !name.kind.empty()) reply += fmt::format("<{}>: ", name.value);
  if (!name.kind.empty()) reply += fmt::format("{} rejected: ", name.kind);
  reply += text;
  reply = fitting(std::move(reply));
  if (warning) {
    log_line("reject_warning", reply);
    return Answer::dunno;
  }
  log_line("reject", reply);
  reply_ = std::move(reply);
  error_ = error;
  return Answer::reject;
}

Evaluation::Answer Evaluation::table_problem(std::string_view about) {
  return refuse(451, "4.3.0", Name{std::string(about), ""}, "Temporary lookup failure", mail::ErrorClass::data);
}

Evaluation::Answer Evaluation::server_error(std::string_view what) {
  log::warning("{}: {}", subject.client->peer.shown(), what);
  reply_ = "451 4.3.5 Server configuration error";
  error_ = mail::ErrorClass::software;
  log_line("reject", reply_);
  return Answer::reject;
}

Evaluation::Answer Evaluation::defer_if_refused(std::string_view dsn, const Name& name, std::string_view text) {
  if (if_reject_.empty())
    if_reject_ = fitting(fmt::format("450 {} <{}>: {} rejected: {}", dsn, name.value, name.kind, text));
  return Answer::dunno;
}

Evaluation::Answer Evaluation::refuse_if_permitted(int code, std::string_view dsn, const Name& name,
                                                   std::string_view text) {
  if (warn) return Answer::dunno;
  if (if_permit_.empty()) {
    if_permit_reason_ = reason;
    std::string status(dsn);
    status[0] = '4';
    if_permit_ = name.kind.empty()
                     ? fmt::format("{} {} {}", code, status, text)
                     : fmt::format("{} {} <{}>: {} rejected: {}", code, status, name.value, name.kind, text);
    if_permit_ = fitting(std::move(if_permit_));
  }
  return Answer::dunno;
}

async::Task<Evaluation::Answer> Evaluation::run(const RestrictionList& list, Name name) {
  if (++depth_ > kMaxDepth) {
    --depth_;
    co_return server_error("restriction classes call each other without end");
  }
  Answer answer = Answer::dunno;
  const bool outer_warn = warn;
  for (const Restriction& r : list) {
    if (discarded()) break;
    warn = outer_warn || std::exchange(warn_next, false);
    const Handler& how = handler(r.check);
    reason = reason_of(r.check);
    if (how.at_once)
      answer = how.at_once(*this, r, name);
    else
      answer = co_await how.in_time(*this, r, name);
    if (answer != Answer::dunno) break;
  }
  warn = outer_warn;
  warn_next = false;  // a warn_if_reject at the end of a list does not reach into the next list
  --depth_;
  co_return answer;
}

Verdict Evaluation::finish(Answer answer) {
  Verdict verdict;
  verdict.effects = std::move(effects);
  verdict.greylisted = std::move(greylisted);
  if (answer == Answer::reject) {
    verdict.reply = std::move(reply_);
    verdict.error = error_;
    const bool ours = error_ == mail::ErrorClass::data || error_ == mail::ErrorClass::software;
    verdict.reason = ours ? metrics::Reason::resources : reason;
  } else if (!if_permit_.empty()) {
    verdict.reason = if_permit_reason_;
    log_line("reject", if_permit_);
    verdict.reply = std::move(if_permit_);
  }
  return verdict;
}

}  // namespace pen::smtpd
