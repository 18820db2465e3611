/// MAIL FROM and RCPT TO: the session's part. The rest is the transaction's.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/command_refusal.h"
#include "lib/mail/verp.h"
#include "smtpd/authentication.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/session.h"

namespace pen::smtpd {
namespace {

// RCPT commands looked up at once; the rest of a longer group follows
constexpr std::size_t kMaxBatch = 64;

}  // namespace

bool Session::proxy_loop() const {
  const Peer& peer = first_peer_ ? *first_peer_ : client_.peer;
  const bool loop = server_.proxy_ends->contains(async::SocketAddress::inet(peer.address, peer.port).text());
  if (loop) log::warning("mail loop: smtpd_proxy_filter of service {} leads back to that service", server_.service);
  return loop;
}

mail::OddDomains Session::odd_domains() const {
  return {.null = settings().resolve_null_domain, .numeric = policy_->resolve->options().numeric_domains()};
}

mail::CommandOptions Session::offered_parameters() const {
  const unsigned withheld = client_.esmtp ? discarded().bits : ~0u;
  const auto offered = [&](unsigned bit) { return (withheld & bit) == 0; };
  // Without its keyword a client does not know of a parameter; these two are still understood, as Postfix does.
  return {.size = client_.esmtp,
          .eight_bit_mime = client_.esmtp,
          .dsn = offered(keyword::kDsn),
          .smtputf8 = offered(keyword::kSmtpUtf8),
          .auth = policy_->auth.enabled && offered(keyword::kAuth),
          .requiretls = offered(keyword::kRequireTls),
          .strict_paths = settings().strict_rfc821_envelopes,
          .odd_domains = odd_domains(),
          .utf8_unasked = !settings().strict_smtputf8,
          .verp = standing_.may_verp && offered(keyword::kVerp) ? std::string_view(settings().default_verp_delimiters)
                                                                : std::string_view(),
          .mt_priority = policy_->priorities && policy_->priorities->takes_parameter() && offered(keyword::kMtPriority),
          .future_release = offered(keyword::kFutureRelease)
                                ? std::chrono::ceil<seconds>(settings().future_release_limit)
                                : seconds(0),
          .now = server_.loop.clock().wall_now()};
}

async::Task<Result<bool>> Session::may_say_priority() {
  if (client_.login && settings().message_priority_logins) co_return true;
  co_return co_await server_.intake.tables.ask([priorities = policy_->priorities, &peer = client_.peer] {
    return priorities->may_say(peer.name, peer.address);
  });
}

std::optional<Response> Session::mail_refused(const mail::MailCommand& mail) {
  // RFC 8689 section 2: the promise would be void if the first hop were in clear text.
  if (mail.requiretls == mail::RequireTls::yes && !client_.secured())
    return Response::refused("530 5.7.10 REQUIRETLS needs TLS: issue a STARTTLS command first",
                             mail::ErrorClass::policy)
        .because(metrics::Reason::tls);
  if (auto no = mail::verp_refusal(mail.sender, mail.verp, settings().verp_delimiter_filter); !no.empty())
    return Response::refused(std::move(no));
  if (client_.login && !client_.login->may_send_as(mail.sender))
    return Response::refused(fmt::format("553 5.7.1 <{}>: Sender address rejected: not for the token of {}",
                                         printable(mail.sender, 200), client_.login->username),
                             mail::ErrorClass::policy);
  if (mail.size && beyond_limit(*mail.size))
    return Response::refused("552 5.3.4 Message size exceeds fixed limit", mail::ErrorClass::policy)
        .because(metrics::Reason::content);
  const auto largest = static_cast<std::uint64_t>(settings().message_size_limit);
  const std::uint64_t least = std::max(static_cast<std::uint64_t>(settings().queue_minfree), largest / 2 * 3);
  if (!server_.intake.queue.accepting() || (server_.queue_space && server_.queue_space->below(least))) {
    log::warning("not enough free space in mail queue: refusing mail from {}", client_.peer.shown());
    return Response::refused("452 4.3.1 Insufficient system storage", mail::ErrorClass::resource);
  }
  return std::nullopt;
}

async::Task<Result<std::shared_ptr<Authentication>>> Session::authentication(std::string sender) {
  const Result<bool> exempt = co_await server_.intake.tables.ask(
      [this] { return policy_->authentication.exempt.matches_host(client_.peer.name, client_.peer.address); });
  if (!exempt) co_return std::unexpected(exempt.error());
  if (*exempt) co_return nullptr;
  using Scope = Authentication::Scope;
  auto checked = std::make_shared<Authentication>(server_, *policy_, client_, std::move(sender),
                                                  client_.login ? Scope::forged_only : Scope::all);
  checked->begin();
  co_return checked;
}

async::Task<bool> Session::completes_header() {
  if (client_.forwarded && client_.forwarded->local) co_return *client_.forwarded->local;
  const Policy& p = *policy_;
  co_return (p.local_rewrite_interfaces && client_.peer.own_address) ||
      (p.local_rewrite_mynetworks && client_.peer.trusted.value_or(false)) ||
      (p.local_rewrite_logins && client_.login) || standing_.local ||
      (p.local_rewrite_all_clientcerts && client_.tls && client_.tls->trusted) ||
      (p.local_rewrite_clientcerts && co_await known_certificate());
}

async::Task<Session::Flow> Session::mail_from(const mail::CommandLine& line) {
  const auto& s = settings();
  if (s.smtpd_helo_required && client_.helo.empty())
    co_return co_await refuse("503 5.5.1 Error: send HELO/EHLO first", mail::ErrorClass::policy);
  if (transaction_) co_return co_await refuse("503 5.5.1 Error: nested MAIL command");
  if (policy_->proxy && proxy_loop())
    co_return co_await refuse("451 4.3.5 Server configuration error", mail::ErrorClass::software);
  if (co_await limits_.too_often(ClientLimits::Event::message, s.smtpd_client_message_rate_limit)) {
    reason_ = metrics::Reason::rate;
    co_return co_await refuse("450 4.7.1 Error: too much mail from " + client_.peer.address, mail::ErrorClass::policy);
  }
  const mail::CommandOptions options = offered_parameters();
  auto mail = mail::parse_mail(line.args, options);
  if (!mail) co_return co_await refuse(mail::command_refusal(mail.error(), false));
  if (auto no = mail_refused(*mail)) co_return co_await answer(*std::move(no));
  if (policy_->named_lists && asked_ahead(client_))
    ask_ahead_about_name(server_.lists, policy_->named_lists->sender, mail::domain_part(mail->sender));
  std::shared_ptr<Authentication> checked;
  if (policy_->authentication.any()) {
    auto made = co_await authentication(mail->sender);
    if (!made) {
      log::warning("authentication_results_exempt_clients: {}", made.error().message());
      co_return co_await refuse("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
    }
    checked = *std::move(made);
  }
  bool says_priority = false;
  std::string granted = "250 2.1.0 Ok";
  if (policy_->priorities) {
    const auto may = co_await may_say_priority();
    if (!may) {
      log::warning("{}", may.error().message());
      co_return co_await refuse("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
    }
    says_priority = *may;
    if (mail->priority > 0 && !says_priority) {
      log::info("{}: MT-PRIORITY={} becomes 0: the client is none of message_priority_clients", client_.peer.shown(),
                mail->priority);
      granted = "250 2.3.6 0 is the priority of this message";  // RFC 6710
      mail->priority = 0;
    }
  }
  const std::uint64_t number = ++server_.transactions;
  intake::Effects effects;
  if (!s.smtpd_delay_reject) {
    Subject about = subject();
    about.sender = mail->sender;
    about.size = mail->size.value_or(0);
    about.transaction = number;
    about.authentication = checked;
    Verdict verdict = co_await ask(&Checks::sender, std::move(about));
    if (verdict.rejected()) co_return co_await refuse(verdict);
    effects = std::move(verdict.effects);
  }
  const bool local = co_await completes_header();
  transaction_ = std::make_unique<Transaction>(server_, *policy_, client_, options, *std::move(mail),
                                               std::move(effects), local, number);
  transaction_->check_with(std::move(checked));
  transaction_->may_say_priority(says_priority);
  if (filters_)
    if (auto no = co_await transaction_->ask_filters(*filters_, line.args)) {
      reset_transaction();
      co_return co_await answer(*std::move(no));
    }
  if (screened_) screened_->saw_mail = true;
  reply(granted);
  co_return Flow::go_on;
}

async::Task<void> Session::answer_rcpt(Transaction::RcptJob& job) {
  failed_ = false;
  const std::uint32_t errors_before = errors_;
  if (!job.refusal.empty()) {
    co_await refuse(job.refusal);
  } else if (co_await limits_.too_often(ClientLimits::Event::recipient, settings().smtpd_client_recipient_rate_limit)) {
    reason_ = metrics::Reason::rate;
    co_await refuse("450 4.7.1 Error: too many recipients from " + client_.peer.address, mail::ErrorClass::policy);
  } else {
    co_await answer(co_await transaction_->take(job));
  }
  // The client is a program that sends lists, and would never get a message through that has too many bad addresses.
  if (client_.login && client_.login->by_token) errors_ = errors_before;
  count(mail::Verb::rcpt, !failed_);
}

async::Task<Session::Flow> Session::rcpt_to(const mail::CommandLine& line) {
  if (!transaction_ || transaction_->in_chunks()) {
    count(mail::Verb::rcpt, false);
    co_return co_await refuse(transaction_ ? "503 5.5.1 Error: RCPT after BDAT" : "503 5.5.1 Error: need MAIL command");
  }
  const auto first = transaction_->parse_rcpt(line.args, 0);
  if (policy_->rcpt_may_wait && policy_->command_filter.empty() && client_.esmtp &&
      istarts_with(stream_.buffered(), "RCPT ") && stream_.line_buffered())
    co_return co_await rcpt_batch(*first);
  if (!first->done) {
    if (policy_->rcpt_asks_policy) stream_.shrink_input();  // it may wait long
    co_await first->judge();
  }
  co_await answer_rcpt(*first);
  co_return Flow::go_on;
}

async::Task<Session::Flow> Session::rcpt_batch(Transaction::RcptJob& first) {
  using Job = Transaction::RcptJob;
  const auto& s = settings();
  std::vector<std::unique_ptr<Job>> more;
  async::Event changed(server_.loop);
  async::Gate gate(server_.loop);  // after what its tasks point to
  if (!first.done) gate.spawn("rcpt", Job::judge_aside(&first, &changed));
  // Take the further RCPT lines of this group that have arrived.
  Server::Judged judged(server_);
  while (more.size() + 1 < kMaxBatch && judged.one_more() && istarts_with(stream_.buffered(), "RCPT ") &&
         stream_.line_buffered()) {
    const auto line_end = stream_.buffered().find('\n');
    if (line_end >= static_cast<std::size_t>(s.line_length_limit)) break;  // the main loop has the reply to that
    if (forbid_bare_newline_ && stream_.buffered()[line_end - 1] != '\r') break;
    auto next = co_await stream_.read_line(static_cast<std::size_t>(s.line_length_limit), until());
    if (!next) co_return read_failed(next.error());
    watchers_.heard(*next);
    more.push_back(transaction_->parse_rcpt(mail::split_command(*next).args, more.size() + 1));
    if (!more.back()->done) gate.spawn("rcpt", Job::judge_aside(more.back().get(), &changed));
  }
  Job* job = &first;
  for (std::size_t i = 0;; ++i) {
    while (!job->done) {
      changed.reset();
      (void)co_await changed.wait();  // every look-up has a time limit of its own
    }
    co_await answer_rcpt(*job);
    // the session ends, the rest gets no answer
    if (hang_up_ || static_cast<int>(errors_) >= s.smtpd_hard_error_limit) break;
    if (i == more.size()) break;
    job = more[i].get();
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
