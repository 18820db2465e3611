#include "smtpd/checks.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/logged.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReply = 510;  // RFC 5321 section 4.5.3.1.5, without CRLF
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

}  // namespace

Checks::Name Checks::client_name() const { return {subject_.client->peer.shown(), "Client host"}; }
Checks::Name Checks::helo_label() const { return {subject_.client->helo, "Helo command"}; }
Checks::Name Checks::sender_label() const { return {subject_.sender.value_or(""), "Sender address"}; }
Checks::Name Checks::recipient_label() const { return {subject_.recipient.value_or(""), "Recipient address"}; }

Checks::Name Checks::etrn_label() const { return {std::string(subject_.etrn_domain), "Etrn command"}; }

void Checks::log_line(std::string_view verb, std::string_view reply) const {
  std::string line = fmt::format("{}: {}: {} from {}: {};", subject_.queue_id.empty() ? "NOQUEUE" : subject_.queue_id,
                                 verb, subject_.where, subject_.client->peer.shown(), reply);
  if (subject_.sender) line += fmt::format(" from=<{}>", mail::logged(*subject_.sender));
  const std::string_view recipient = subject_.recipient ? std::string_view(*subject_.recipient) : std::string_view();
  if (subject_.recipient) line += fmt::format(" to=<{}>", mail::logged(recipient));
  line += fmt::format(" proto={}", subject_.client->protocol());
  if (!subject_.client->helo.empty()) line += fmt::format(" helo=<{}>", subject_.client->helo);
  if (subject_.client->login) line += fmt::format(" sasl_username=<{}>", subject_.client->login->username);
  log::info("{}", line);
  if (verb == "reject")
    tell_rejected(*subject_.client, {.queue_id = subject_.queue_id,
                                     .stage = subject_.where,
                                     .reply = reply,
                                     .sender = subject_.sender.value_or(""),
                                     .recipient = recipient});
}

Checks::Answer Checks::permits(std::string_view action, const Name& name, std::string_view table) {
  // What the lists defer in the end is not permitted. A table that cannot be read causes no log line.
  if (!policy_.logged_permits.empty() && if_permit_.empty() && policy_.logged_permits.matches(action).value_or(false))
    log_line("permit", fmt::format("action={} for {}={}{}{}", action, name.kind, name.value,
                                   table.empty() ? "" : " from ", table));
  return Answer::permit;
}

Checks::Answer Checks::refuse(int code, std::string_view dsn, const Name& name, std::string_view text,
                              mail::ErrorClass error) {
  const bool warning = warn_ && error != mail::ErrorClass::data;  // an unreadable table says nothing about the client
  if (!if_reject_.empty() && code >= 500 && !warning) {  // a problem that may pass must not cause a permanent refusal
    reply_ = std::move(if_reject_);
    if_reject_.clear();
    error_ = error;
    log_line("reject", reply_);
    return Answer::reject;
  }
  if (policy_.settings.soft_bounce && code >= 500) code -= 100;
  std::string status(dsn);
  if (!status.empty()) status[0] = code >= 500 ? '5' : '4';
  std::string reply = fmt::format("{} {} ", code, status);
  if (!name.value.empty() || !name.kind.empty()) reply += fmt::format("<{}>: ", name.value);
  if (!name.kind.empty()) reply += fmt::format("{} rejected: ", name.kind);
  reply += text;
  if (reply.size() > kMaxReply) reply.resize(kMaxReply);
  if (warning) {
    log_line("reject_warning", reply);
    return Answer::dunno;
  }
  log_line("reject", reply);
  reply_ = std::move(reply);
  error_ = error;
  return Answer::reject;
}

Checks::Answer Checks::table_problem(std::string_view subject) {
  return refuse(451, "4.3.0", Name{std::string(subject), ""}, "Temporary lookup failure", mail::ErrorClass::data);
}

Checks::Answer Checks::server_error(std::string_view what) {
  log::warning("{}: {}", subject_.client->peer.shown(), what);
  reply_ = "451 4.3.5 Server configuration error";
  error_ = mail::ErrorClass::software;
  log_line("reject", reply_);
  return Answer::reject;
}

Checks::Answer Checks::defer_if_refused(std::string_view dsn, const Name& name, std::string_view text) {
  if (if_reject_.empty()) if_reject_ = fmt::format("450 {} <{}>: {} rejected: {}", dsn, name.value, name.kind, text);
  return Answer::dunno;
}

Checks::Answer Checks::refuse_if_permitted(int code, std::string_view dsn, const Name& name, std::string_view text) {
  if (warn_) return Answer::dunno;
  if (if_permit_.empty()) {
    if_permit_reason_ = reason_;
    std::string status(dsn);
    status[0] = '4';
    if_permit_ = name.kind.empty()
                     ? fmt::format("{} {} {}", code, status, text)
                     : fmt::format("{} {} <{}>: {} rejected: {}", code, status, name.value, name.kind, text);
  }
  return Answer::dunno;
}

struct Checks::Handler {
  Answer (Checks::*at_once)(const Restriction&, const Name&) = nullptr;
  async::Task<Answer> (Checks::*in_time)(const Restriction&, const Name&) = nullptr;
  constexpr Handler(decltype(at_once) function) : at_once(function) {}
  constexpr Handler(decltype(in_time) function) : in_time(function) {}
};

const Checks::Handler& Checks::handler(Check check) {
  static constexpr Handler kHandlers[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying) &Checks::name,
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
      &Checks::restriction_class,
      &Checks::unsupported,
      &Checks::unknown,
  };
  static_assert(std::size(kHandlers) == static_cast<std::size_t>(Check::unknown) + 1);
  return kHandlers[static_cast<std::size_t>(check)];
}

async::Task<Checks::Answer> Checks::run(const RestrictionList& list, Name name) {
  if (++depth_ > kMaxDepth) {
    --depth_;
    co_return server_error("restriction classes call each other without end");
  }
  Answer answer = Answer::dunno;
  const bool outer_warn = warn_;
  for (const Restriction& r : list) {
    if (discarded()) break;
    warn_ = outer_warn || std::exchange(warn_next_, false);
    const Handler& how = handler(r.check);
    reason_ = reason_of(r.check);
    if (how.at_once)
      answer = (this->*how.at_once)(r, name);
    else
      answer = co_await (this->*how.in_time)(r, name);
    if (answer != Answer::dunno) break;
  }
  warn_ = outer_warn;
  warn_next_ = false;  // a warn_if_reject at the end of a list does not reach into the next list
  --depth_;
  co_return answer;
}

async::Task<Checks::Answer> Checks::run_lists_before_recipient(bool with_sender) {
  if (!policy_.client.empty() && co_await run(policy_.client, client_name()) == Answer::reject)
    co_return Answer::reject;
  if_reject_.clear();
  if (!policy_.helo.empty() && !subject_.client->helo.empty() &&
      co_await run(policy_.helo, helo_label()) == Answer::reject)
    co_return Answer::reject;
  if_reject_.clear();
  if (!with_sender) co_return Answer::dunno;
  co_return co_await run_sender_list();
}

async::Task<Checks::Answer> Checks::run_sender_list() {
  if (!policy_.sender.empty() && co_await run(policy_.sender, sender_label()) == Answer::reject)
    co_return Answer::reject;
  Answer answer = Answer::dunno;
  if (policy_.settings.smtpd_reject_unlisted_sender && subject_.sender && !discarded()) {
    reason_ = metrics::Reason::sender;
    answer = co_await unlisted(*subject_.sender, sender_label(), true);
  }
  if_reject_.clear();
  co_return answer;
}

Verdict Checks::finish(Answer answer) {
  Verdict verdict;
  verdict.effects = std::move(effects_);
  verdict.greylisted = std::move(greylisted_);
  if (answer == Answer::reject) {
    verdict.reply = std::move(reply_);
    verdict.error = error_;
    const bool ours = error_ == mail::ErrorClass::data || error_ == mail::ErrorClass::software;
    verdict.reason = ours ? metrics::Reason::resources : reason_;
  } else if (!if_permit_.empty()) {
    verdict.reason = if_permit_reason_;
    log_line("reject", if_permit_);
    verdict.reply = std::move(if_permit_);
  }
  return verdict;
}

async::Task<Verdict> Checks::client() {
  if (policy_.settings.smtpd_delay_reject || policy_.client.empty()) co_return Verdict{};
  subject_.where = "CONNECT";
  co_return finish(co_await run(policy_.client, client_name()));
}

async::Task<Verdict> Checks::helo() {
  if (policy_.settings.smtpd_delay_reject || policy_.helo.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.helo, helo_label()));
}

async::Task<Verdict> Checks::sender() {
  subject_.where = "MAIL";
  if (policy_.settings.smtpd_delay_reject) co_return Verdict{};
  co_return finish(co_await run_sender_list());
}

async::Task<Verdict> Checks::recipient() {
  const auto& s = policy_.settings;
  // Postmaster without a domain is accepted from anybody (RFC 5321 sections 2.3.5 and 4.5.1), as in Postfix.
  if (iequals(*subject_.recipient, "postmaster")) co_return Verdict{};
  ask_ahead_of_recipient();
  Answer answer = Answer::dunno;
  if (s.smtpd_delay_reject) answer = co_await run_lists_before_recipient(subject_.sender.has_value());
  if_reject_.clear();  // what defers refusals from here on holds for both lists and for the checks behind them
  for (int i = 0; i < 2 && answer != Answer::reject; ++i) {
    const bool relay = (i == 0) == s.smtpd_relay_before_recipient_restrictions;
    const RestrictionList& list = relay ? policy_.relay : policy_.recipient;
    if (!list.empty()) answer = co_await run(list, recipient_label());
  }
  if (answer != Answer::reject && !discarded()) {
    // It would be an unknown user later on, when its sender is nobody to tell.
    const auto original = policy_.resolve->original_sender(policy_.resolve->rewrite(*subject_.recipient));
    if (original && !*original)
      answer = refuse(550, "5.1.1", recipient_label(), "User unknown: SRS address " + original->error().message(),
                      mail::ErrorClass::bounce);
  }
  if (answer != Answer::reject && !discarded() && s.smtpd_reject_unlisted_recipient &&
      policy_.unknown_recipient_checks) {
    reason_ = metrics::Reason::unknown_user;
    answer = co_await unlisted(*subject_.recipient, recipient_label(), false);
  }
  if (answer != Answer::reject && !discarded() && s.suppression_list) answer = co_await suppressed();
  co_return finish(answer);
}

void Checks::about_only_recipient() {
  if (!subject_.recipient && !subject_.only_recipient.empty())
    subject_.recipient = std::string(subject_.only_recipient);
}

async::Task<Verdict> Checks::data() {
  subject_.where = "DATA";
  about_only_recipient();
  if (policy_.data.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.data, Name{"DATA", "Data command"}));
}

async::Task<Verdict> Checks::etrn() {
  Answer answer = Answer::dunno;
  if (policy_.settings.smtpd_delay_reject) answer = co_await run_lists_before_recipient(false);
  if (answer != Answer::reject && !policy_.etrn.empty()) answer = co_await run(policy_.etrn, etrn_label());
  co_return finish(answer);
}

async::Task<Verdict> Checks::end_of_data() {
  subject_.where = "END-OF-MESSAGE";
  after_content_ = true;
  about_only_recipient();
  if (policy_.end_of_data.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.end_of_data, Name{"END-OF-MESSAGE", "End-of-data"}));
}

}  // namespace pen::smtpd
