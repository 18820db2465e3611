/// STARTTLS and TLS from the first byte.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/map/log_level.h"
#include "lib/net/tls/session.h"
#include "smtpd/session.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

/// The TLS lines of Received:, as Postfix writes them for smtpd_tls_received_header.
std::string trace_lines(const tls::SessionInfo& info, bool asked) {
  std::string text = fmt::format("(using {} with cipher {} ({}/{} bits)", info.protocol, info.cipher, info.used_bits,
                                 info.cipher_bits);
  const char* lead = "\r\n\t ";
  if (!info.key_exchange.empty()) {
    text += lead + ("key-exchange " + info.key_exchange);
    lead = " ";
  }
  if (!info.server_signature.empty()) text += lead + ("server-signature " + info.server_signature);
  if (!info.server_digest.empty()) text += " server-digest " + info.server_digest;
  if (!info.client_signature.empty()) text += "\r\n\t client-signature " + info.client_signature;
  if (!info.client_digest.empty()) text += " client-digest " + info.client_digest;
  text += ")\r\n\t";
  if (info.peer_certificate) {
    // Quotes and backslashes would end the string early.
    const auto quoted = [](std::string name) {
      for (char& c : name)
        if (c == '"' || c == '\\' || c == '(' || c == ')') c = '?';
      return name;
    };
    text += fmt::format("(Client CN \"{}\", Issuer \"{}\" ({}))",
                        info.subject.empty() ? "(not extracted)" : quoted(info.subject), quoted(info.issuer),
                        info.trusted ? "verified OK" : "not verified");
  } else {
    text += asked ? "(Client did not present a certificate)" : "(No client certificate requested)";
  }
  return text;
}

}  // namespace

async::Task<Session::Flow> Session::starttls(const mail::CommandLine& line) {
  if (!line.args.empty()) co_return co_await refuse("501 5.5.4 Syntax: STARTTLS");
  if (client_.tls) co_return co_await refuse("503 5.5.1 Error: TLS already active");
  if (policy_->tls.level == TlsLevel::none || (discarded().bits & keyword::kStartTls) != 0)
    co_return co_await refuse("502 5.5.1 Error: command not implemented");
  if (co_await limits_.too_many_handshakes()) {
    reason_ = metrics::Reason::rate;
    co_return co_await refuse(fmt::format("454 4.7.0 Error: too many new TLS sessions from {}", client_.peer.address),
                              mail::ErrorClass::policy);
  }
  auto context = server_.tls ? co_await server_.tls->current(until()) : nullptr;
  if (!context)
    co_return co_await refuse("454 4.7.0 TLS not available due to local problem", mail::ErrorClass::software);
  // Bytes after the command came in clear text and need not be the client's (RFC 3207 section 4.2). Normally they
  // have been refused as an error before this; if that check is off, they are dropped here.
  if (!stream_.buffered().empty()) {
    log::info("{} bytes in clear text behind STARTTLS from {} are dropped", stream_.buffered().size(),
              client_.peer.shown());
    stream_.consume(stream_.buffered().size());
  }
  reply("220 2.0.0 Ready to start TLS");
  if (auto flushed = co_await stream_.flush(until()); !flushed) co_return read_failed(flushed.error());
  co_return co_await start_tls(std::move(context));
}

async::Task<bool> Session::known_certificate() {
  if (!client_.tls || !client_.tls->certificate) co_return false;
  co_return co_await server_.intake.tables.ask([this] {
    const auto& known = policy_->relay_clientcerts;
    for (const std::string* print : {&client_.tls->fingerprint, &client_.tls->key_fingerprint})
      if (const auto found = known.lookup(*print); found && *found) return true;
    return false;
  });
}

async::Task<int> Session::tls_loglevel() {
  const int usual = static_cast<int>(settings().smtpd_tls_loglevel);
  const Result<int> found = co_await server_.intake.tables.ask([&] {
    const Peer& peer = client_.peer;
    const bool named = peer.name_state == NameState::ok;
    return map::find_log_level(policy_->tls_loglevels, named ? std::string_view(peer.name) : std::string_view(),
                               peer.address, policy_->tls_loglevel_parents, usual);
  });
  if (!found) log::warning("smtpd_tls_loglevel_maps: {}", found.error().message());
  co_return found.value_or(usual);
}

async::Task<Session::Flow> Session::wrap() {
  if (co_await limits_.too_many_handshakes()) {
    log::warning("New TLS session rate limit reached: {} is disconnected", client_.peer.shown());
    went_wrong(mail::ErrorClass::policy);
    stream_.close();
    co_return Flow::close;
  }
  auto context = server_.tls ? co_await server_.tls->current(until()) : nullptr;
  if (context) co_return co_await start_tls(std::move(context));
  log::warning("TLS is not available: {} is disconnected", client_.peer.shown());
  went_wrong(mail::ErrorClass::software);
  stream_.close();
  co_return Flow::close;
}

async::Task<Session::Flow> Session::start_tls(std::shared_ptr<const tls::Context> context) {
  const auto& s = settings();
  const auto asked = context->options().client_certificate;
  using Ask = tls::ContextOptions::ClientCertificate;
  auto done = co_await tls::accept(
      stream_, std::move(context),
      {.deadline = server_.loop.now() + s.smtpd_starttls_timeout, .cancel = &server_.stop_cancel()});
  if (!done) {
    // No reply is possible: the client expects TLS.
    if (done.error().is(async::WaitError::timed_out)) {
      log::info("timeout after {} from {}", last_command_, client_.peer.shown());
      metrics::smtpd_timeouts.add(metrics::stage_of(last_command_));
    } else if (!done.error().is(async::WaitError::cancelled)) {
      log::info("SSL_accept error from {}: {}", client_.peer.shown(), done.error().message());
      log::info("lost connection after {} from {}", last_command_, client_.peer.shown());
      metrics::smtpd_connections_lost.add(metrics::stage_of(last_command_));
    }
    ++server_.counts.failed_handshakes;
    metrics::smtpd_tls_failures.add();
    tell_tls(client_, {}, {}, false, done.error().message());
    watchers_.handshake();
    failed_ = true;
    stream_.close();
    co_return Flow::close;
  }
  const tls::SessionInfo& info = *done;
  ++server_.counts.tls_sessions;
  metrics::smtpd_tls_sessions.add(metrics::version_of(info.protocol));
  tell_tls(client_, info.protocol, info.cipher, info.trusted);
  if (info.resumed)
    ++server_.counts.tls_resumed;
  else  // refused from the next handshake on: this one's cost is spent
    (void)co_await limits_.too_often(ClientLimits::Event::tls, s.smtpd_client_new_tls_session_rate_limit);
  const int level = policy_->tls_loglevels.empty() ? static_cast<int>(s.smtpd_tls_loglevel) : co_await tls_loglevel();
  if (level > 0) log::info("{}", tls::log_line(info, "from", client_.peer.shown()));
  // Forget what the client said in clear text (RFC 3207 section 4.2).
  client_.helo.clear();
  client_.esmtp = false;
  client_.login.reset();
  reset_transaction();
  client_.tls.reset(
      new SecureClient{.trace = s.smtpd_tls_received_header ? trace_lines(info, asked != Ask::unasked) : std::string(),
                       .certificate = info.peer_certificate,
                       .trusted = info.trusted,
                       .fingerprint = info.fingerprint,
                       .key_fingerprint = info.key_fingerprint,
                       .subject = info.subject,
                       .issuer = info.issuer,
                       .protocol = info.protocol,
                       .cipher = info.cipher,
                       .server_name = info.server_name,
                       .used_bits = info.used_bits});
  watchers_.handshake();
  if (asked == Ask::required && !info.trusted) {
    log::info("NOQUEUE: abort: TLS from {}: Client certificate not trusted ({})", client_.peer.shown(), info.why_not);
    failed_ = true;
    went_wrong(mail::ErrorClass::policy);
    reason_ = metrics::Reason::tls;
    reply(fmt::format("421 4.7.1 {} Error: Client certificate not trusted", s.myhostname));
    co_return Flow::close;
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
