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
#include "smtpd/extensions.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/session.h"

namespace pen::smtpd {
namespace {

// RCPT commands looked up at once; the rest of a longer group follows
constexpr std::size_t kMaxBatch = 64;

/// The client is this service's own connection to its filter. peer: the host that connected.
bool proxy_loop(const Server& server, const Peer& peer) {
  const bool loop = server.proxy_ends->contains(async::SocketAddress::inet(peer.address, peer.port).text());
  if (loop) log::warning("mail loop: smtpd_proxy_filter of service {} leads back to that service", server.service);
  return loop;
}

/// Whether what the client says of how urgent its mail is counts. With priorities only.
[[gnu::noinline]] async::Task<Result<bool>> may_say_priority(const Conversation& talk) {
  if (talk.client.login && talk.settings().message_priority_logins) co_return true;
  co_return co_await talk.server.intake.tables.ask([priorities = talk.policy().priorities, &peer = talk.client.peer] {
    return priorities->may_say(peer.name, peer.address);
  });
}

/// Why a MAIL command that can be read is refused before any list is asked.
std::optional<Response> mail_refused(const Conversation& talk, const mail::MailCommand& mail) {
  // RFC 8689 section 2: the promise would be void if the first hop were in clear text.
  if (mail.requiretls == mail::RequireTls::yes && !talk.client.secured())
    return Response::refused("530 5.7.10 REQUIRETLS needs TLS: issue a STARTTLS command first",
                             mail::ErrorClass::policy)
        .because(metrics::Reason::tls);
  if (auto no = mail::verp_refusal(mail.sender, mail.verp, talk.settings().verp_delimiter_filter); !no.empty())
    return Response::refused(std::move(no));
  if (talk.client.login && !talk.client.login->may_send_as(mail.sender))
    return Response::refused(fmt::format("553 5.7.1 <{}>: Sender address rejected: not for the token of {}",
                                         printable(mail.sender, 200), talk.client.login->username),
                             mail::ErrorClass::policy);
  if (mail.size && beyond_limit(talk.settings(), *mail.size))
    return Response::refused("552 5.3.4 Message size exceeds fixed limit", mail::ErrorClass::policy)
        .because(metrics::Reason::content);
  const auto largest = static_cast<std::uint64_t>(talk.settings().message_size_limit);
  const std::uint64_t least = std::max(static_cast<std::uint64_t>(talk.settings().queue_minfree), largest / 2 * 3);
  if (!talk.server.intake.queue.accepting() || (talk.server.queue_space && talk.server.queue_space->below(least))) {
    log::warning("not enough free space in mail queue: refusing mail from {}", talk.client.peer.shown());
    return Response::refused("452 4.3.1 Insufficient system storage", mail::ErrorClass::resource);
  }
  return std::nullopt;
}

/// What checks the origin of a message; nullptr: nothing does. Errors: of the table of clients that are exempt.
[[gnu::noinline]] async::Task<Result<std::shared_ptr<Authentication>>> authentication(const Conversation& talk,
                                                                                      std::string sender) {
  const Result<bool> exempt = co_await talk.server.intake.tables.ask([&talk] {
    return talk.policy().authentication.exempt.matches_host(talk.client.peer.name, talk.client.peer.address);
  });
  if (!exempt) co_return std::unexpected(exempt.error());
  if (*exempt) co_return nullptr;
  using Scope = Authentication::Scope;
  auto checked = std::make_shared<Authentication>(talk.server, talk.policy(), talk.client, std::move(sender),
                                                  talk.client.login ? Scope::forged_only : Scope::all);
  checked->begin();
  co_return checked;
}

/// Whether relay_clientcerts has the fingerprint of the client's certificate or of its key.
[[gnu::noinline]] async::Task<bool> known_certificate(const Conversation& talk) {
  if (!talk.client.tls || !talk.client.tls->certificate) co_return false;
  co_return co_await talk.server.intake.tables.ask([&talk] {
    const auto& known = talk.policy().relay_clientcerts;
    for (const std::string* print : {&talk.client.tls->fingerprint, &talk.client.tls->key_fingerprint})
      if (const auto found = known.lookup(*print); found && *found) return true;
    return false;
  });
}

/// The client is in local_header_rewrite_clients.
[[gnu::noinline]] async::Task<bool> completes_header(const Conversation& talk) {
  if (talk.client.forwarded && talk.client.forwarded->local) co_return *talk.client.forwarded->local;
  const Policy& p = talk.policy();
  co_return (p.local_rewrite_interfaces && talk.client.peer.own_address) ||
      (p.local_rewrite_mynetworks && talk.client.peer.trusted.value_or(false)) ||
      (p.local_rewrite_logins && talk.client.login) || talk.standing.local ||
      (p.local_rewrite_all_clientcerts && talk.client.tls && talk.client.tls->trusted) ||
      (p.local_rewrite_clientcerts && co_await known_certificate(talk));
}

/// Whether the client may say how urgent its mail is. If not, what MAIL says of it does not count, as the reply tells.
[[gnu::noinline]] async::Task<Result<bool>> grant_priority(Conversation& talk, mail::MailCommand& mail,
                                                           std::string& reply) {
  if (!talk.policy().priorities) co_return false;
  const auto may = co_await may_say_priority(talk);
  if (!may || *may || mail.priority <= 0) co_return may;
  log::info("{}: MT-PRIORITY={} becomes 0: the client is none of message_priority_clients", talk.client.peer.shown(),
            mail.priority);
  reply = "250 2.3.6 0 is the priority of this message";  // RFC 6710
  mail.priority = 0;
  co_return false;
}

}  // namespace

async::Task<Flow> Session::mail_from(const mail::CommandLine& line) {
  const auto& s = talk_.settings();
  if (s.smtpd_helo_required && talk_.client.helo.empty())
    co_return co_await talk_.refuse("503 5.5.1 Error: send HELO/EHLO first", mail::ErrorClass::policy);
  if (talk_.transaction) co_return co_await talk_.refuse("503 5.5.1 Error: nested MAIL command");
  if (talk_.policy().proxy && proxy_loop(talk_.server, first_peer_ ? *first_peer_ : talk_.client.peer))
    co_return co_await talk_.refuse("451 4.3.5 Server configuration error", mail::ErrorClass::software);
  if (co_await limits_.too_often(ClientLimits::Event::message, s.smtpd_client_message_rate_limit)) {
    talk_.reason = metrics::Reason::rate;
    co_return co_await talk_.refuse("450 4.7.1 Error: too much mail from " + talk_.client.peer.address,
                                    mail::ErrorClass::policy);
  }
  const mail::CommandOptions options = offered_parameters(talk_);
  auto mail = mail::parse_mail(line.args, options);
  if (!mail) co_return co_await talk_.refuse(mail::command_refusal(mail.error(), false));
  if (auto no = mail_refused(talk_, *mail)) co_return co_await talk_.answer(*std::move(no));
  if (talk_.policy().named_lists && asked_ahead(talk_.client))
    ask_ahead_about_name(talk_.server.lists, talk_.policy().named_lists->sender, mail::domain_part(mail->sender));
  std::shared_ptr<Authentication> checked;
  if (talk_.policy().authentication.any()) {
    auto made = co_await authentication(talk_, mail->sender);
    if (!made) {
      log::warning("authentication_results_exempt_clients: {}", made.error().message());
      co_return co_await talk_.refuse("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
    }
    checked = *std::move(made);
  }
  std::string granted = "250 2.1.0 Ok";
  const auto says_priority = co_await grant_priority(talk_, *mail, granted);
  if (!says_priority) {
    log::warning("{}", says_priority.error().message());
    co_return co_await talk_.refuse("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
  }
  const std::uint64_t number = ++talk_.server.transactions;
  intake::Effects effects;
  if (!s.smtpd_delay_reject) {
    Subject about = talk_.subject();
    about.sender = mail->sender;
    about.size = mail->size.value_or(0);
    about.transaction = number;
    about.authentication = checked;
    Verdict verdict = co_await talk_.ask(&Checks::sender, std::move(about));
    if (verdict.rejected()) co_return co_await talk_.refuse(verdict);
    effects = std::move(verdict.effects);
  }
  const bool local = co_await completes_header(talk_);
  talk_.transaction = std::make_unique<Transaction>(talk_.server, talk_.policy(), talk_.client, options,
                                                    *std::move(mail), std::move(effects), local, number);
  talk_.transaction->check_with(std::move(checked));
  talk_.transaction->may_say_priority(*says_priority);
  if (talk_.filters)
    if (auto no = co_await talk_.transaction->ask_filters(*talk_.filters, line.args)) {
      talk_.reset_transaction();
      co_return co_await talk_.answer(*std::move(no));
    }
  if (screened_) screened_->saw_mail = true;
  talk_.reply(granted);
  co_return Flow::go_on;
}

async::Task<void> Session::answer_rcpt(Transaction::RcptJob& job) {
  talk_.failed = false;
  const std::uint32_t errors_before = talk_.errors;
  if (!job.refusal.empty()) {
    co_await talk_.refuse(job.refusal);
  } else if (co_await limits_.too_often(ClientLimits::Event::recipient,
                                        talk_.settings().smtpd_client_recipient_rate_limit)) {
    talk_.reason = metrics::Reason::rate;
    co_await talk_.refuse("450 4.7.1 Error: too many recipients from " + talk_.client.peer.address,
                          mail::ErrorClass::policy);
  } else {
    co_await talk_.answer(co_await talk_.transaction->take(job));
  }
  // The client is a program that sends lists, and would never get a message through that has too many bad addresses.
  if (talk_.client.login && talk_.client.login->by_token) talk_.errors = errors_before;
  counts_.add(mail::Verb::rcpt, !talk_.failed);
}

async::Task<Flow> Session::rcpt_to(const mail::CommandLine& line) {
  if (!talk_.transaction || talk_.transaction->in_chunks()) {
    counts_.add(mail::Verb::rcpt, false);
    co_return co_await talk_.refuse(talk_.transaction ? "503 5.5.1 Error: RCPT after BDAT"
                                                      : "503 5.5.1 Error: need MAIL command");
  }
  const auto first = talk_.transaction->parse_rcpt(line.args, 0);
  if (talk_.transaction->judges_together() && talk_.policy().command_filter.empty() && talk_.client.esmtp &&
      istarts_with(talk_.stream.buffered(), "RCPT ") && talk_.stream.line_buffered())
    co_return co_await rcpt_batch(*first);
  if (!first->done) {
    if (talk_.policy().rcpt_asks_policy) talk_.stream.shrink_input();  // it may wait long
    co_await first->judge();
  }
  co_await answer_rcpt(*first);
  co_return Flow::go_on;
}

async::Task<Flow> Session::rcpt_batch(Transaction::RcptJob& first) {
  using Job = Transaction::RcptJob;
  const auto& s = talk_.settings();
  std::vector<std::unique_ptr<Job>> more;
  async::Event changed(talk_.server.loop);
  async::Gate gate(talk_.server.loop);  // after what its tasks point to
  if (!first.done) gate.spawn("rcpt", Job::judge_aside(&first, &changed));
  // Take the further RCPT lines of this group that have arrived.
  Server::Judged judged(talk_.server);
  while (more.size() + 1 < kMaxBatch && judged.one_more() && istarts_with(talk_.stream.buffered(), "RCPT ") &&
         talk_.stream.line_buffered()) {
    const auto line_end = talk_.stream.buffered().find('\n');
    if (line_end >= static_cast<std::size_t>(s.line_length_limit)) break;  // the main loop has the reply to that
    if (talk_.standing.forbid_bare_newline && talk_.stream.buffered()[line_end - 1] != '\r') break;
    auto next = co_await talk_.stream.read_line(static_cast<std::size_t>(s.line_length_limit), talk_.until());
    if (!next) co_return talk_.read_failed(next.error());
    while (next->ends_with('\r')) next->remove_suffix(1);
    talk_.watchers.heard(*next);
    more.push_back(talk_.transaction->parse_rcpt(mail::split_command(*next).args, more.size() + 1));
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
    if (talk_.hangs_up || static_cast<int>(talk_.errors) >= s.smtpd_hard_error_limit) break;
    if (i == more.size()) break;
    job = more[i].get();
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
