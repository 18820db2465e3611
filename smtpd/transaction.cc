/// MAIL and RCPT: the envelope of a transaction.
#include "smtpd/transaction.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/command_refusal.h"
#include "lib/suite/events/emitter.h"

namespace pen::smtpd {

Transaction::Transaction(Server& server, const Policy& policy, const ClientFacts& client,
                         const mail::CommandOptions& options, mail::MailCommand mail, intake::Effects effects,
                         bool local, std::uint64_t number)
    : server_(server),
      policy_(policy),
      client_(client),
      message_(server.intake, std::move(mail.facts())),
      options_(options),
      smtputf8_(mail.smtputf8),
      local_(local),
      number_(number),
      announced_(mail.size) {
  message_.effects() = std::move(effects);
  if (mail.priority_given) priority_given_ = mail.priority;
  mail::Envelope& e = message_.envelope();
  // the announced size, until the content has come
  e.body.size = mail.size.value_or(0);
  describe_client();
  if (mail.auth != "<>") e.client.sasl_sender = printable(mail.auth);
  // A proxy filter returns the message, which is rewritten then: the filter hears whether the client is local.
  message_.unqueued(proxied());
  message_.complete_header(local_ && !proxied());
  message_.hide_client(settings().smtpd_hide_client_session);
  if (events::wanted()) message_.session(events::session_text(client_.session));
  if (client_.forwarded) {
    mail::Client told = client_.forwarded->client;
    if (told.name.empty()) told.name = "unknown";
    message_.speaks_for(std::move(told));
  }
}

Transaction::~Transaction() { server_.policies.forget(number_); }

async::Task<std::optional<Response>> Transaction::ask_filters(SessionFilters& filters, std::string_view args) {
  filters_ = &filters;
  message_.assign_queue_id();
  filters.begin(message_);
  return filters.mail(args);
}

async::Task<std::optional<Response>> Transaction::filter_recipient(RcptJob& job) {
  if (!job.verdict.rejected()) co_return co_await filters_->rcpt(job.rcpt.recipient, job.args);
  co_await filters_->refused_rcpt(job.rcpt.recipient, job.args, job.verdict.reply);
  co_return std::nullopt;
}

void Transaction::describe_client() {
  mail::Client& c = message_.envelope().client;
  const Peer& peer = client_.peer;
  c.name = peer.name;
  c.reverse_name = peer.reverse_name;
  c.address = peer.address;
  c.port = peer.port;
  c.helo = client_.helo;
  c.protocol = client_.protocol();
  if (client_.secured() && client_.esmtp) c.protocol += 'S';
  if (client_.login) {
    if (client_.esmtp) c.protocol += 'A';  // RFC 3848
    c.sasl_method = client_.login->method;
    c.sasl_username = client_.login->username;
  }
  if (client_.secured()) message_.trace_tls(client_.tls->trace);
}

Subject Transaction::subject() {
  Subject about(client_);
  about.sender = message_.envelope().sender;
  about.recipient_count = message_.recipients();
  about.queue_id = message_.queue_id();
  const mail::Envelope& e = message_.envelope();
  if (e.recipients.size() == 1) about.only_recipient = e.recipients.front().address;
  about.sasl_sender = e.client.sasl_sender;
  about.size = complete_ ? received() : announced_.value_or(0);
  about.discarded = message_.effects().discard && !message_.effects().discard_by_filter;
  about.transaction = number_;
  about.authentication = authentication_;
  return about;
}

void Transaction::log_client() {
  const mail::Client& c = message_.envelope().client;
  std::string line =
      (message_.queue_id().empty() ? "NOQUEUE" : message_.queue_id()) + ": client=" + client_.peer.shown();
  if (!c.sasl_method.empty()) line += ", sasl_method=" + c.sasl_method;
  if (!c.sasl_username.empty()) line += ", sasl_username=" + c.sasl_username;
  if (!c.sasl_sender.empty()) line += ", sasl_sender=" + c.sasl_sender;
  if (const Forwarded* told = client_.forwarded.get()) {
    if (!told->ident.empty()) line += ", orig_queue_id=" + told->ident;
    if (!told->client.address.empty())
      line += fmt::format(", orig_client={}[{}]", told->client.name.empty() ? "unknown" : told->client.name,
                          told->client.address);
  }
  log::info("{}", line);
}

std::unique_ptr<Transaction::RcptJob> Transaction::parse_rcpt(std::string_view args, std::size_t ahead) {
  auto job = std::make_unique<RcptJob>();
  auto parsed = mail::parse_rcpt(args, options_, smtputf8_);
  if (!parsed) {
    job->refusal = mail::command_refusal(parsed.error(), true);
    job->done = true;
    return job;
  }
  job->rcpt = *std::move(parsed);
  if (filters_) job->args = args;
  if (message_.recipients() + ahead >= static_cast<std::size_t>(settings().smtpd_recipient_limit)) {
    job->done = true;  // gets 452 in its turn, unless the commands before it are refused
    return job;
  }
  Subject about = subject();
  about.recipient = job->rcpt.recipient;
  about.recipient_count += ahead;
  job->checks.emplace(policy_, server_.check_tools(), std::move(about));
  return job;
}

async::Task<void> Transaction::RcptJob::judge() {
  verdict = co_await checks->recipient();
  done = true;
}

async::Task<void> Transaction::RcptJob::judge_aside(RcptJob* job, async::Event* changed) {
  co_await job->judge();
  changed->set();
}

void Transaction::keep_effects(intake::Effects of_refused) {
  constexpr std::size_t kMost = 100;  // a client may have many refused
  if (message_.effects().prepend.size() >= kMost) of_refused.prepend.clear();
  if (message_.effects().bcc.size() >= kMost) of_refused.bcc.clear();
  message_.effects().merge(std::move(of_refused));
}

async::Task<Response> Transaction::take(RcptJob& job) {
  const auto& s = settings();
  if (message_.recipients() >= static_cast<std::size_t>(s.smtpd_recipient_limit)) {
    // Counts as an error only far beyond the limit: the client may send the rest in another transaction.
    const bool counts = ++too_many_ > static_cast<std::size_t>(s.smtpd_recipient_overshoot_limit);
    co_return Response::put_off("452 4.5.3 Error: too many recipients", mail::ErrorClass::policy, counts)
        .because(metrics::Reason::policy);
  }
  if (message_.memory_is_short()) {
    server_.tell_short_memory(client_.peer.shown());
    co_return Response::put_off("452 4.3.1 Error: too many recipients of all clients, try again later",
                                mail::ErrorClass::resource)
        .because(metrics::Reason::resources);
  }
  if (!job.checks) {  // was over the limit when it came in, but is no longer
    Subject about = subject();
    about.recipient = job.rcpt.recipient;
    job.checks.emplace(policy_, server_.check_tools(), std::move(about));
    job.verdict = co_await job.checks->recipient();
  }
  if (filters_)
    if (auto no = co_await filter_recipient(job)) {
      keep_effects(std::move(job.verdict.effects));
      co_return *std::move(no);
    }
  if (job.verdict.rejected()) {
    keep_effects(std::move(job.verdict.effects));
    co_return Response::refused(std::move(job.verdict.reply), job.verdict.error).because(job.verdict.reason);
  }
  mail::Recipient recipient{.address = std::move(job.rcpt.recipient),
                            .original = {},
                            .orcpt = std::move(job.rcpt.orcpt),
                            .notify = job.rcpt.notify};
  Response response = Response::good("250 2.1.5 Ok");
  if (proxied() && !policy_.proxy->speed_adjust) {
    response = co_await proxy_rcpt(recipient);
    if (response.kind != Response::Kind::good) co_return response;
  }
  const bool first = message_.recipients() == 0;
  message_.add_recipient(std::move(recipient));
  metrics::smtpd_recipients.add();
  if (!job.verdict.greylisted.empty() && !std::exchange(tells_greylisting_, true))
    job.verdict.effects.prepend.push_back(std::move(job.verdict.greylisted));
  message_.effects().merge(std::move(job.verdict.effects));
  if (first) log_client();
  co_return response;
}

}  // namespace pen::smtpd
