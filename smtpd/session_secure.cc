/// STARTTLS and AUTH: whether the client may, and what follows.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "smtpd/login_dialogue.h"
#include "smtpd/session.h"
#include "smtpd/session_tls.h"

namespace pen::smtpd {

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
  co_return co_await start_tls(talk_, limits_, std::move(context));
}

async::Task<Flow> Session::auth(const mail::CommandLine& line) {
  const auto& s = talk_.settings();
  if (s.smtpd_helo_required && talk_.client.helo.empty())
    co_return co_await talk_.refuse("503 5.5.1 Error: send HELO/EHLO first");
  if (!talk_.policy().auth.enabled || !talk_.server.authenticator || (talk_.discarded().bits & keyword::kAuth) != 0)
    co_return co_await talk_.refuse("503 5.5.1 Error: authentication not enabled");
  if (talk_.transaction) co_return co_await talk_.refuse("503 5.5.1 Error: MAIL transaction in progress");
  if (s.smtpd_tls_auth_only && !talk_.client.secured())
    co_return co_await talk_.refuse("504 5.5.4 Encryption required for requested authentication mechanism");
  if (talk_.client.login) co_return co_await talk_.refuse("503 5.5.1 Error: already authenticated");
  if (co_await limits_.too_often(ClientLimits::Event::auth, s.smtpd_client_auth_rate_limit))
    co_return co_await talk_.refuse("450 4.7.1 Error: too many AUTH commands from " + talk_.client.peer.address,
                                    mail::ErrorClass::policy);
  const auto words = split(line.args, " \t");
  if (words.empty() || words.size() > 2) co_return co_await talk_.refuse("501 5.5.4 Syntax: AUTH mechanism");
  std::string mechanism(words[0]);
  for (char& c : mechanism)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  std::optional<std::string> initial;
  if (words.size() == 2) initial = words[1] == "=" ? std::string_view() : words[1];
  co_return co_await LoginDialogue(talk_).run(std::move(mechanism), std::move(initial));
}

}  // namespace pen::smtpd
