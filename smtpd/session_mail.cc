/// MAIL FROM and RCPT TO.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/command_refusal.h"
#include "smtpd/session.h"

namespace pen::smtpd {
namespace {

// RCPT commands looked up at once; the rest of a longer group comes after
constexpr std::size_t kMaxBatch = 64;

}  // namespace

/// One RCPT command of a group.
struct Session::RcptJob {
  mail::RcptCommand rcpt;
  std::string refusal;  // known without looking anything up
  std::optional<Checks> checks;
  Verdict verdict;
  bool done = false;
};

void Session::log_client(intake::Message& message) const {
  std::string line =
      (message.queue_id().empty() ? "NOQUEUE" : message.queue_id()) + ": client=" + peer_.shown();
  const mail::Client& client = message.envelope().client;
  if (!client.sasl_method.empty()) line += ", sasl_method=" + client.sasl_method;
  if (!client.sasl_username.empty()) line += ", sasl_username=" + client.sasl_username;
  if (!client.sasl_sender.empty()) line += ", sasl_sender=" + client.sasl_sender;
  log::info("{}", line + forwarded_shown());
}

async::Task<Session::Flow> Session::mail_from(const mail::CommandLine& line) {
  const auto& s = settings();
  if (s.smtpd_helo_required && helo_.empty()) {
    co_return co_await refuse("503 5.5.1 Error: send HELO/EHLO first", mail::ErrorClass::policy);
  }
  if (transaction_) {
    co_return co_await refuse("503 5.5.1 Error: nested MAIL command");
  }
  if (proxied() && proxy_loop()) {
    co_return co_await refuse("451 4.3.5 Server configuration error", mail::ErrorClass::software);
  }
  if (co_await too_often(Event::message, s.smtpd_client_message_rate_limit)) {
    co_return co_await refuse("450 4.7.1 Error: too much mail from " + peer_.address,
                              mail::ErrorClass::policy);
  }
  const unsigned discarded = esmtp_ ? policy_->discarded_keywords : ~0u;
  const auto offered = [&](unsigned bit) { return (discarded & bit) == 0; };
  const mail::CommandOptions options{.size = offered(keyword::kSize),
                                     .eight_bit_mime = offered(keyword::kEightBitMime),
                                     .dsn = offered(keyword::kDsn),
                                     .smtputf8 = offered(keyword::kSmtpUtf8),
                                     .auth = policy_->auth.enabled && offered(keyword::kAuth),
                                     .requiretls = offered(keyword::kRequireTls),
                                     .strict_paths = s.strict_rfc821_envelopes};
  auto mail = mail::parse_mail(line.args, options);
  if (!mail) {
    co_return co_await refuse(mail::command_refusal(mail.error(), false));
  }
  // RFC 8689 section 2: a promise that begins with a hop in clear text would be none.
  if (mail->requiretls && !secured()) {
    co_return co_await refuse("530 5.7.10 REQUIRETLS needs TLS: issue a STARTTLS command first",
                              mail::ErrorClass::policy);
  }
  if (mail->size && s.message_size_limit > 0 &&
      *mail->size > static_cast<std::uint64_t>(s.message_size_limit)) {
    co_return co_await refuse("552 5.3.4 Message size exceeds fixed limit",
                              mail::ErrorClass::policy);
  }
  if (!server_.intake.queue.accepting()) {
    log::warning("not enough free space in mail queue: refusing mail from {}", peer_.shown());
    co_return co_await refuse("452 4.3.1 Insufficient system storage", mail::ErrorClass::resource);
  }
  intake::Effects effects;
  if (!s.smtpd_delay_reject || s.smtpd_reject_unlisted_sender) {
    Subject about = subject();
    about.sender = mail->sender;
    Checks checks(*policy_, {server_.loop, server_.intake.tables, server_.names}, std::move(about));
    Verdict verdict = co_await checks.sender();
    if (verdict.rejected()) {
      co_return co_await refuse(verdict.reply, verdict.error);
    }
    effects = std::move(verdict.effects);
  }
  transaction_.reset(
      new Transaction{.message = intake::Message(server_.intake, std::move(mail->sender)),
                      .options = options,
                      .smtputf8 = mail->smtputf8,
                      .announced = mail->size,
                      .bdat = nullptr,
                      .proxy = nullptr});
  transaction_->message.effects() = std::move(effects);
  mail::Envelope& e = transaction_->message.envelope();
  e.envid = std::move(mail->envid);
  e.ret = mail->ret;
  e.body_type = mail->body;
  e.smtputf8 = mail->smtputf8;
  if (mail->requiretls) e.requiretls = mail::RequireTls::yes;
  e.client.name = peer_.name;
  e.client.address = peer_.address;
  e.client.port = peer_.port;
  e.client.helo = helo_;
  e.client.protocol = esmtp_ ? "ESMTP" : "SMTP";
  if (secured() && esmtp_) e.client.protocol += 'S';
  if (login_) {
    if (esmtp_) e.client.protocol += 'A';  // RFC 3848
    e.client.sasl_method = login_->method;
    e.client.sasl_username = login_->username;
  }
  if (mail->auth != "<>") e.client.sasl_sender = printable(mail->auth);
  e.client.reverse_name = peer_.reverse_name;
  if (secured()) transaction_->message.trace_tls(tls_->trace);
  // what was announced; replaced by the facts when the content has come
  e.body.size = mail->size.value_or(0);
  if (forwarded_ && forwarded_->local)
    transaction_->local = *forwarded_->local;
  else
    transaction_->local = (policy_->local_rewrite_interfaces && peer_.own_address) ||
                          (policy_->local_rewrite_mynetworks && peer_.trusted.value_or(false)) ||
                          (policy_->local_rewrite_logins && login_) || standing_.local ||
                          (policy_->local_rewrite_all_clientcerts && tls_ && tls_->trusted) ||
                          (policy_->local_rewrite_clientcerts && co_await known_certificate());
  // What is done on the way into the queue is done behind a proxy filter, which hears whether the client is local.
  transaction_->message.unqueued(proxied());
  transaction_->message.complete_header(transaction_->local && !proxied());
  take_forwarded(transaction_->message);
  reply("250 2.1.0 Ok");
  co_return Flow::go_on;
}

std::unique_ptr<Session::RcptJob> Session::parse_rcpt(std::string_view args, std::size_t ahead) {
  auto job = std::make_unique<RcptJob>();
  auto parsed = mail::parse_rcpt(args, transaction_->options, transaction_->smtputf8);
  if (!parsed) {
    job->refusal = mail::command_refusal(parsed.error(), true);
    job->done = true;
    return job;
  }
  job->rcpt = *std::move(parsed);
  if (transaction_->message.recipients() + ahead >=
      static_cast<std::size_t>(settings().smtpd_recipient_limit)) {
    job->done = true;  // answered with 452 in its turn, unless those before it are refused
    return job;
  }
  Subject about = subject();
  about.recipient = job->rcpt.recipient;
  about.recipient_count += ahead;
  job->checks.emplace(*policy_, CheckTools{server_.loop, server_.intake.tables, server_.names},
                      std::move(about));
  return job;
}

async::Task<void> Session::judge(RcptJob* job, async::Event* done) {
  job->verdict = co_await job->checks->recipient();
  job->done = true;
  done->set();
}

async::Task<void> Session::answer_rcpt(RcptJob& job) {
  const auto& s = settings();
  failed_ = false;
  intake::Message& message = transaction_->message;
  if (!job.refusal.empty()) {
    co_await refuse(job.refusal);
  } else if (co_await too_often(Event::recipient, s.smtpd_client_recipient_rate_limit)) {
    co_await refuse("450 4.7.1 Error: too many recipients from " + peer_.address,
                    mail::ErrorClass::policy);
  } else if (message.recipients() >= static_cast<std::size_t>(s.smtpd_recipient_limit)) {
    // Counts as an error only far beyond the limit: a client may well send the rest in another transaction.
    failed_ = true;
    went_wrong(mail::ErrorClass::policy);
    if (++transaction_->refused > static_cast<std::size_t>(s.smtpd_recipient_overshoot_limit))
      ++errors_;
    reply("452 4.5.3 Error: too many recipients");
  } else if (message.memory_is_short()) {
    failed_ = true;  // no error of this client
    went_wrong(mail::ErrorClass::resource);
    server_.tell_short_memory(peer_.shown());
    reply("452 4.3.1 Error: too many recipients of all clients, try again later");
  } else {
    if (!job.checks) {  // it was over the limit when it came in, and is not any more
      Subject about = subject();
      about.recipient = job.rcpt.recipient;
      job.checks.emplace(*policy_, CheckTools{server_.loop, server_.intake.tables, server_.names},
                         std::move(about));
      job.verdict = co_await job.checks->recipient();
    }
    if (job.verdict.rejected()) {
      co_await refuse(job.verdict.reply, job.verdict.error);
    } else {
      mail::Recipient recipient{.address = std::move(job.rcpt.recipient),
                                .original = {},
                                .orcpt = std::move(job.rcpt.orcpt),
                                .notify = job.rcpt.notify};
      const bool at_once = proxied() && !policy_->proxy->speed_adjust;
      if (at_once && !co_await proxy_rcpt(recipient)) {
        count(mail::Verb::rcpt, !failed_);
        co_return;
      }
      const bool first = message.recipients() == 0;
      message.add_recipient(std::move(recipient));
      message.effects().merge(std::move(job.verdict.effects));
      if (first) log_client(message);
      if (!at_once) reply("250 2.1.5 Ok");
    }
  }
  count(mail::Verb::rcpt, !failed_);
}

async::Task<Session::Flow> Session::rcpt_to(const mail::CommandLine& line) {
  if (!transaction_) {
    count(mail::Verb::rcpt, false);
    co_return co_await refuse("503 5.5.1 Error: need MAIL command");
  }
  if (transaction_->bdat) {
    count(mail::Verb::rcpt, false);
    co_return co_await refuse("503 5.5.1 Error: RCPT after BDAT");
  }
  const auto first = parse_rcpt(line.args, 0);
  if (policy_->rcpt_may_wait && esmtp_ && istarts_with(stream_.buffered(), "RCPT ") &&
      stream_.line_buffered())
    co_return co_await rcpt_batch(*first);
  if (!first->done) first->verdict = co_await first->checks->recipient();
  co_await answer_rcpt(*first);
  co_return Flow::go_on;
}

async::Task<Session::Flow> Session::rcpt_batch(RcptJob& first) {
  const auto& s = settings();
  std::vector<std::unique_ptr<RcptJob>> more;
  async::Event changed(server_.loop);
  async::Gate gate(server_.loop);  // after what its tasks point to
  if (!first.done) gate.spawn("rcpt", judge(&first, &changed));
  // Further RCPT lines of this group, as far as they are here.
  Server::Judged judged(server_);
  while (more.size() + 1 < kMaxBatch && judged.one_more() &&
         istarts_with(stream_.buffered(), "RCPT ") && stream_.line_buffered()) {
    const auto line_end = stream_.buffered().find('\n');
    if (line_end >= static_cast<std::size_t>(s.line_length_limit))
      break;  // the main loop knows what to say
    if (forbid_bare_newline_ && stream_.buffered()[line_end - 1] != '\r') break;
    auto next = co_await stream_.read_line(static_cast<std::size_t>(s.line_length_limit), until());
    if (!next) co_return read_failed(next.error());
    heard(*next);
    more.push_back(parse_rcpt(mail::split_command(*next).args, more.size() + 1));
    if (!more.back()->done) gate.spawn("rcpt", judge(more.back().get(), &changed));
  }
  RcptJob* job = &first;
  for (std::size_t i = 0;; ++i) {
    while (!job->done) {
      changed.reset();
      (void)co_await changed.wait();  // every look-up has a bound of its own
    }
    co_await answer_rcpt(*job);
    if (hang_up_ || static_cast<int>(errors_) >= s.smtpd_hard_error_limit)
      break;  // the rest is not worth an answer
    if (i == more.size()) break;
    job = more[i].get();
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
