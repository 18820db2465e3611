// STARTTLS (RFC 3207): when it is sent, and how the connection continues with or without it.
#include "smtp/engine.h"

namespace pen::smtp {

/// True: STARTTLS is in progress, or the connection has ended because TLS is required but impossible.
bool Engine::tls_comes_first() {
  if (encrypted() || settings_.starttls == StartTls::never) return false;
  if (offers_.starttls) {
    pending_text_ += "STARTTLS\r\n";
    owe(Step::starttls);
    starttls_said_ = true;
    return true;
  }
  if (settings_.starttls != StartTls::required) return false;
  tls_not_to_be_had({}, nullptr);
  return true;
}

void Engine::on_starttls_reply(const mail::Reply& reply) {
  if (reply.positive()) {
    phase_ = Phase::tls;
    return;
  }
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", Step::starttls, reply);
    return;
  }
  note_refusal(reply);
  if (settings_.starttls == StartTls::required || reply.code == 421) {
    tls_not_to_be_had("refused to start TLS: " + reply.text, &reply);
    if (reply.code == 421) trouble_ = Trouble::peer_421;
    return;
  }
  become_ready();  // the reply to EHLO still holds
}

/// why: what the peer did, as a sentence continues after its name; empty: it did not offer TLS.
void Engine::tls_not_to_be_had(std::string why, const mail::Reply* reply) {
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
  leave(Trouble::tls, std::move(status));
}

/// The connection ends before any mail: the next host of the domain may offer it (RFC 8689 section 4.2.1).
void Engine::requiretls_not_offered() {
  leave(Trouble::tls, {mail::Action::deferred,
                       "4.7.30",
                       "REQUIRETLS is needed, but host " + peer_.shown + " does not offer it",
                       {},
                       peer_.host});
}

bool Engine::lost_in_tls(End how) const {
  return opened_ && encrypted_ && settings_.starttls == StartTls::if_offered && !settings_.login && !mail_answered_ &&
         first_begun_at_ - ready_at_ <= kIdle && (how == End::closed || how == End::timed_out);
}

void Engine::tls_started(SteadyTime now) {
  if (phase_ != Phase::tls) return;
  encrypted_ = true;
  offers_ = {};
  phase_ = Phase::hello;
  hello_at_ = now;
  hello(settings_.lmtp ? Step::lhlo : Step::ehlo);
}

void Engine::tls_failed(mail::DeliveryStatus status) { leave(Trouble::tls, std::move(status)); }

}  // namespace pen::smtp
