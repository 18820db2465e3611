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

async::Task<Flow> Session::starttls(const mail::CommandLine& line) {
  if (!line.args.empty()) co_return co_await talk_.refuse("501 5.5.4 Syntax: STARTTLS");
  if (talk_.client.tls) co_return co_await talk_.refuse("503 5.5.1 Error: TLS already active");
  if (talk_.policy().tls.level == TlsLevel::none || (talk_.discarded().bits & keyword::kStartTls) != 0)
    co_return co_await talk_.refuse("502 5.5.1 Error: command not implemented");
  if (co_await limits_.too_many_handshakes()) {
    talk_.reason = metrics::Reason::rate;
    co_return co_await talk_.refuse(
        fmt::format("454 4.7.0 Error: too many new TLS sessions from {}", talk_.client.peer.address),
        mail::ErrorClass::policy);
  }
  auto context = talk_.server.tls ? co_await talk_.server.tls->current(talk_.until()) : nullptr;
  if (!context)
    co_return co_await talk_.refuse("454 4.7.0 TLS not available due to local problem", mail::ErrorClass::software);
  // Bytes after the command came in clear text and need not be the client's (RFC 3207 section 4.2). Normally they
  // have been refused as an error before this; if that check is off, they are dropped here.
  if (!talk_.stream.buffered().empty()) {
    log::info("{} bytes in clear text behind STARTTLS from {} are dropped", talk_.stream.buffered().size(),
              talk_.client.peer.shown());
    talk_.stream.consume(talk_.stream.buffered().size());
  }
  talk_.reply("220 2.0.0 Ready to start TLS");
  if (auto flushed = co_await talk_.stream.flush(talk_.until()); !flushed) co_return talk_.read_failed(flushed.error());
  co_return co_await start_tls(std::move(context));
}

async::Task<bool> Session::known_certificate() {
  if (!talk_.client.tls || !talk_.client.tls->certificate) co_return false;
  co_return co_await talk_.server.intake.tables.ask([this] {
    const auto& known = talk_.policy().relay_clientcerts;
    for (const std::string* print : {&talk_.client.tls->fingerprint, &talk_.client.tls->key_fingerprint})
      if (const auto found = known.lookup(*print); found && *found) return true;
    return false;
  });
}

async::Task<int> Session::tls_loglevel() {
  const int usual = static_cast<int>(talk_.settings().smtpd_tls_loglevel);
  const Result<int> found = co_await talk_.server.intake.tables.ask([&] {
    const Peer& peer = talk_.client.peer;
    const bool named = peer.name_state == NameState::ok;
    return map::find_log_level(talk_.policy().tls_loglevels, named ? std::string_view(peer.name) : std::string_view(),
                               peer.address, talk_.policy().tls_loglevel_parents, usual);
  });
  if (!found) log::warning("smtpd_tls_loglevel_maps: {}", found.error().message());
  co_return found.value_or(usual);
}

async::Task<Flow> Session::wrap() {
  if (co_await limits_.too_many_handshakes()) {
    log::warning("New TLS session rate limit reached: {} is disconnected", talk_.client.peer.shown());
    talk_.went_wrong(mail::ErrorClass::policy);
    talk_.stream.close();
    co_return Flow::close;
  }
  auto context = talk_.server.tls ? co_await talk_.server.tls->current(talk_.until()) : nullptr;
  if (context) co_return co_await start_tls(std::move(context));
  log::warning("TLS is not available: {} is disconnected", talk_.client.peer.shown());
  talk_.went_wrong(mail::ErrorClass::software);
  talk_.stream.close();
  co_return Flow::close;
}

async::Task<Flow> Session::start_tls(std::shared_ptr<const tls::Context> context) {
  const auto& s = talk_.settings();
  const auto asked = context->options().client_certificate;
  using Ask = tls::ContextOptions::ClientCertificate;
  auto done = co_await tls::accept(
      talk_.stream, std::move(context),
      {.deadline = talk_.server.loop.now() + s.smtpd_starttls_timeout, .cancel = &talk_.server.stop_cancel()});
  if (!done) {
    // No reply is possible: the client expects TLS.
    if (done.error().is(async::WaitError::timed_out)) {
      log::info("timeout after {} from {}", talk_.last_command, talk_.client.peer.shown());
      metrics::smtpd_timeouts.add(metrics::stage_of(talk_.last_command));
    } else if (!done.error().is(async::WaitError::cancelled)) {
      log::info("SSL_accept error from {}: {}", talk_.client.peer.shown(), done.error().message());
      log::info("lost connection after {} from {}", talk_.last_command, talk_.client.peer.shown());
      metrics::smtpd_connections_lost.add(metrics::stage_of(talk_.last_command));
    }
    ++talk_.server.counts.failed_handshakes;
    metrics::smtpd_tls_failures.add();
    tell_tls(talk_.client, {}, {}, false, done.error().message());
    talk_.watchers.handshake();
    talk_.failed = true;
    talk_.stream.close();
    co_return Flow::close;
  }
  const tls::SessionInfo& info = *done;
  ++talk_.server.counts.tls_sessions;
  metrics::smtpd_tls_sessions.add(metrics::version_of(info.protocol));
  tell_tls(talk_.client, info.protocol, info.cipher, info.trusted);
  if (info.resumed)
    ++talk_.server.counts.tls_resumed;
  else  // refused from the next handshake on: this one's cost is spent
    (void)co_await limits_.too_often(ClientLimits::Event::tls, s.smtpd_client_new_tls_session_rate_limit);
  const int level =
      talk_.policy().tls_loglevels.empty() ? static_cast<int>(s.smtpd_tls_loglevel) : co_await tls_loglevel();
  if (level > 0) log::info("{}", tls::log_line(info, "from", talk_.client.peer.shown()));
  // Forget what the client said in clear text (RFC 3207 section 4.2).
  talk_.client.helo.clear();
  talk_.client.esmtp = false;
  talk_.client.login.reset();
  talk_.reset_transaction();
  talk_.client.tls.reset(
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
  talk_.watchers.handshake();
  if (asked == Ask::required && !info.trusted) {
    log::info("NOQUEUE: abort: TLS from {}: Client certificate not trusted ({})", talk_.client.peer.shown(),
              info.why_not);
    talk_.failed = true;
    talk_.went_wrong(mail::ErrorClass::policy);
    talk_.reason = metrics::Reason::tls;
    talk_.reply(fmt::format("421 4.7.1 {} Error: Client certificate not trusted", s.myhostname));
    co_return Flow::close;
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
