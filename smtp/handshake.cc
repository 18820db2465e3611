#include "smtp/handshake.h"

#include <utility>

#include "lib/trust/sasl/client.h"

namespace pen::smtp {

Handshake::Handshake(const Settings& settings, const Peer& peer, Ending& ending)
    : settings_(settings), peer_(peer), ending_(ending) {}
Handshake::~Handshake() = default;

void Handshake::say(std::string text, Step step, bool response) {
  words_.text += std::move(text) + "\r\n";
  words_.response = response;
  awaiting_ = step;
}

std::optional<Handshake::Words> Handshake::take_words() {
  if (words_.text.empty()) return std::nullopt;
  return std::exchange(words_, {});
}

void Handshake::hello(Step step) {
  const std::string verb = step == Step::ehlo ? "EHLO " : step == Step::lhlo ? "LHLO " : "HELO ";
  say(verb + settings_.helo_name, step);
}

void Handshake::on_reply(const mail::Reply& reply) {
  const Step step = *std::exchange(awaiting_, std::nullopt);
  switch (step) {
    case Step::greeting:
      on_greeting(reply);
      break;
    case Step::starttls:
      on_starttls_reply(reply);
      break;
    case Step::auth:
      on_auth_reply(reply);
      break;
    default:
      on_hello_reply(reply, step);
      break;
  }
}

void Handshake::unexpected(const mail::Reply& reply, Step step) {
  ending_.protocol_error(peer_, "an unexpected reply", step, reply, offers_.pipelining && settings_.pipelining);
}

void Handshake::refused(const mail::Reply& reply) {
  ending_.note_refusal(reply);
  mail::DeliveryStatus status = peer_.refused_to_talk(reply);
  status.action = mail::Action::deferred;
  status.dsn = soft(std::move(status.dsn));
  ending_.leave(reply.permanent() ? Trouble::greeting_5xx : Trouble::greeting_4xx, std::move(status));
}

void Handshake::on_greeting(const mail::Reply& reply) {
  if (reply.intermediate()) {
    unexpected(reply, Step::greeting);
    return;
  }
  if (reply.permanent() && !settings_.skip_5xx_greeting) {
    // Every job gets this answer, without a command: the mail is returned.
    ending_.note_refusal(reply);
    refusal_ = peer_.refused_to_talk(reply);
    phase_ = Phase::done;
    return;
  }
  if (!reply.positive()) {
    refused(reply);
    return;
  }
  phase_ = Phase::hello;
  const bool esmtp = reply.text.find("ESMTP") != std::string::npos;
  if (settings_.lmtp)
    hello(Step::lhlo);
  else if (settings_.never_send_ehlo || (!settings_.always_send_ehlo && !esmtp))
    hello(Step::helo);
  else
    hello(Step::ehlo);
}

void Handshake::on_hello_reply(const mail::Reply& reply, Step step) {
  if (reply.intermediate()) {
    unexpected(reply, step);
    return;
  }
  if (!reply.positive()) {
    if (step == Step::ehlo && reply.code != 421)
      hello(Step::helo);  // RFC 5321 section 3.2
    else
      refused(reply);
    return;
  }
  if (step != Step::helo) offers_ = parse_offers(reply.lines, settings_.discard_keywords);
  if (tls_comes_first()) return;
  if (!encrypted()) offers_.requiretls = false;  // RFC 8689 section 2: it means nothing in clear text
  if (settings_.requiretls && !offers_.requiretls) {
    requiretls_not_offered();
    return;
  }
  go_on_to_login();
}

void Handshake::go_on_to_login() {
  ending_.tls_to_blame = false;  // later errors have nothing to do with TLS
  if (!login_comes_first()) phase_ = Phase::done;
}

/// True: STARTTLS is in progress, or the connection has ended because TLS is required but impossible.
bool Handshake::tls_comes_first() {
  if (encrypted() || settings_.starttls == StartTls::never) return false;
  if (offers_.starttls) {
    say("STARTTLS", Step::starttls);
    ending_.tls_to_blame = true;
    return true;
  }
  if (settings_.starttls != StartTls::required) return false;
  tls_not_to_be_had({}, nullptr);
  return true;
}

void Handshake::on_starttls_reply(const mail::Reply& reply) {
  if (reply.positive()) {
    phase_ = Phase::tls;
    return;
  }
  if (reply.intermediate()) {
    unexpected(reply, Step::starttls);
    return;
  }
  ending_.note_refusal(reply);
  if (settings_.starttls == StartTls::required || reply.code == 421) {
    tls_not_to_be_had("refused to start TLS: " + reply.text, &reply);
    if (reply.code == 421) ending_.trouble = Trouble::peer_421;
    return;
  }
  go_on_to_login();  // the reply to EHLO still holds
}

/// why: what the peer did, as a sentence continues after its name; empty: it did not offer TLS.
void Handshake::tls_not_to_be_had(std::string why, const mail::Reply* reply) {
  mail::DeliveryStatus status{mail::Action::deferred, "4.7.4", {}, {}, peer_.host};
  if (settings_.requiretls && (reply == nullptr || reply->permanent())) {
    status.dsn = "4.7.10";
    status.text = "REQUIRETLS asks for TLS, which host " + peer_.shown + " does not offer";
    if (!why.empty()) status.text = "REQUIRETLS asks for TLS, but host " + peer_.shown + " " + why;
  } else if (why.empty())
    status.text = "TLS is required, but was not offered by host " + peer_.shown;
  else if (settings_.starttls == StartTls::required)
    status.text = "TLS is required, but host " + peer_.shown + " " + why;
  else
    status.text = "host " + peer_.shown + " " + why;
  if (reply != nullptr) status.diagnostic = "smtp; " + reply->text;
  ending_.leave(Trouble::tls, std::move(status));
}

/// The connection ends before any mail: the next host of the domain may offer it (RFC 8689 section 4.2.1).
void Handshake::requiretls_not_offered() {
  ending_.leave(Trouble::tls, {mail::Action::deferred,
                               "4.7.30",
                               "REQUIRETLS is needed, but host " + peer_.shown + " does not offer it",
                               {},
                               peer_.host});
}

void Handshake::tls_started() {
  if (phase_ != Phase::tls) return;
  encrypted_ = true;
  offers_ = {};
  phase_ = Phase::hello;
  hello(settings_.lmtp ? Step::lhlo : Step::ehlo);
}

}  // namespace pen::smtp
