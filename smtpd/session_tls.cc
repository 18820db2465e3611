#include "smtpd/session_tls.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/map/log_level.h"
#include "lib/net/tls/session.h"
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

/// The log level of TLS for this client: smtpd_tls_loglevel_maps, smtpd_tls_loglevel.
[[gnu::noinline]] async::Task<int> tls_loglevel(const Conversation& talk) {
  const int usual = static_cast<int>(talk.settings().smtpd_tls_loglevel);
  const Result<int> found = co_await talk.server.intake.tables.ask([&] {
    const Peer& peer = talk.client.peer;
    const bool named = peer.name_state == NameState::ok;
    return map::find_log_level(talk.policy().tls_loglevels, named ? std::string_view(peer.name) : std::string_view(),
                               peer.address, talk.policy().tls_loglevel_parents, usual);
  });
  if (!found) log::warning("smtpd_tls_loglevel_maps: {}", found.error().message());
  co_return found.value_or(usual);
}

}  // namespace

async::Task<Flow> start_tls(Conversation& talk, ClientLimits& limits, std::shared_ptr<const tls::Context> context) {
  const auto& s = talk.settings();
  const auto asked = context->options().client_certificate;
  using Ask = tls::ContextOptions::ClientCertificate;
  auto done = co_await tls::accept(
      talk.stream, std::move(context),
      {.deadline = talk.server.loop.now() + s.smtpd_starttls_timeout, .cancel = &talk.server.stop_cancel()});
  if (!done) {
    // No reply is possible: the client expects TLS.
    if (done.error().is(async::WaitError::timed_out)) {
      log::info("timeout after {} from {}", talk.last_command, talk.client.peer.shown());
      metrics::smtpd_timeouts.add(metrics::stage_of(talk.last_command));
    } else if (!done.error().is(async::WaitError::cancelled)) {
      log::info("SSL_accept error from {}: {}", talk.client.peer.shown(), done.error().message());
      log::info("lost connection after {} from {}", talk.last_command, talk.client.peer.shown());
      metrics::smtpd_connections_lost.add(metrics::stage_of(talk.last_command));
    }
    ++talk.server.counts.failed_handshakes;
    metrics::smtpd_tls_failures.add();
    tell_tls(talk.client, {}, {}, false, done.error().message());
    talk.watchers.handshake();
    talk.failed = true;
    talk.stream.close();
    co_return Flow::close;
  }
  const tls::SessionInfo& info = *done;
  ++talk.server.counts.tls_sessions;
  metrics::smtpd_tls_sessions.add(metrics::version_of(info.protocol));
  tell_tls(talk.client, info.protocol, info.cipher, info.trusted);
  if (info.resumed)
    ++talk.server.counts.tls_resumed;
  else  // refused from the next handshake on: this one's cost is spent
    (void)co_await limits.too_often(ClientLimits::Event::tls, s.smtpd_client_new_tls_session_rate_limit);
  const int level =
      talk.policy().tls_loglevels.empty() ? static_cast<int>(s.smtpd_tls_loglevel) : co_await tls_loglevel(talk);
  if (level > 0) log::info("{}", tls::log_line(info, "from", talk.client.peer.shown()));
  // Forget what the client said in clear text (RFC 3207 section 4.2).
  talk.client.helo.clear();
  talk.client.esmtp = false;
  talk.client.login.reset();
  talk.reset_transaction();
  talk.client.tls.reset(
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
  talk.watchers.handshake();
  if (asked == Ask::required && !info.trusted) {
    log::info("NOQUEUE: abort: TLS from {}: Client certificate not trusted ({})", talk.client.peer.shown(),
              info.why_not);
    talk.failed = true;
    talk.went_wrong(mail::ErrorClass::policy);
    talk.reason = metrics::Reason::tls;
    talk.reply(fmt::format("421 4.7.1 {} Error: Client certificate not trusted", s.myhostname));
    co_return Flow::close;
  }
  co_return Flow::go_on;
}

async::Task<Flow> wrap(Conversation& talk, ClientLimits& limits) {
  if (co_await limits.too_many_handshakes()) {
    log::warning("New TLS session rate limit reached: {} is disconnected", talk.client.peer.shown());
    talk.went_wrong(mail::ErrorClass::policy);
    talk.stream.close();
    co_return Flow::close;
  }
  auto context = talk.server.tls ? co_await talk.server.tls->current(talk.until()) : nullptr;
  if (context) co_return co_await start_tls(talk, limits, std::move(context));
  log::warning("TLS is not available: {} is disconnected", talk.client.peer.shown());
  talk.went_wrong(mail::ErrorClass::software);
  talk.stream.close();
  co_return Flow::close;
}

}  // namespace pen::smtpd
