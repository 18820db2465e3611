// AUTH (RFC 4954): after the last EHLO and before the first message, where the connection has credentials.
#include "lib/base/text.h"
#include "lib/sasl/base64.h"
#include "smtp/engine.h"
#include "smtp/login.h"

namespace pen::smtp {

namespace {
constexpr unsigned kMaxChallenges = 8;  // no mechanism that is implemented here needs more than two
}  // namespace

void Engine::login_failed(const mail::Reply* reply, std::string_view why) {
  mail::DeliveryStatus status{mail::Action::deferred, "4.7.0", {}, {}, peer_.host};
  if (reply == nullptr) {
    status.text = "SASL authentication failed; cannot authenticate to server " + peer_.shown + ": " + std::string(why);
    leave(Trouble::greeting_4xx, std::move(status));
    return;
  }
  note_refusal(*reply);
  status.dsn = reply->dsn_or_default();
  status.text = "SASL authentication failed; server " + peer_.shown + " said: " + reply->text;
  status.diagnostic = "smtp; " + reply->text;
  if (reply->permanent() && !settings_.login->defer_refused) {
    // The connection stays open, and every job handed to it gets this answer without a command.
    status.action = mail::Action::failed;
    not_for_us_ = std::move(status);
    settle_login(true);
    return;
  }
  status.dsn[0] = '4';
  leave(reply->code == 421 ? Trouble::peer_421 : Trouble::greeting_4xx, std::move(status));
}

/// True: AUTH is in progress, or the connection has ended because no mechanism fits.
bool Engine::login_comes_first() {
  if (login_settled_ || !settings_.login || offers_.auth.empty()) return false;
  const Login& login = *settings_.login;
  const auto& options = encrypted() ? login.secured : login.clear;
  exchange_ = sasl::choose(
      offers_.auth,
      [&](const sasl::Mechanism& m) {
        return options.allow(m.properties) && (!login.filter || login.filter->matches(m.name).value_or(false));
      },
      login.credentials, login.nonce);
  if (!exchange_) {
    login_failed(nullptr, "no mechanism available");
    return true;
  }
  pending_text_ += "AUTH ";
  pending_text_ += exchange_->mechanism();
  if (const auto initial = exchange_->initial()) {
    pending_text_ += ' ';
    pending_text_ += initial->empty() ? "=" : sasl::base64_encode(*initial);
  }
  pending_text_ += "\r\n";
  owe(Step::auth);
  return true;
}

void Engine::on_auth_reply(const mail::Reply& reply) {
  if (reply.intermediate()) {
    std::string_view text = trim(std::string_view(reply.text).substr(3));
    const auto challenge = sasl::base64_decode(text);
    if (++challenges_ > kMaxChallenges || !challenge) {
      login_failed(nullptr, challenge ? "too many challenges" : "malformed challenge");
      return;
    }
    const auto response = exchange_->respond(*challenge);
    if (!response) {
      login_failed(nullptr, response.error().context());
      return;
    }
    pending_response_ = true;
    pending_text_ += sasl::base64_encode(*response);
    pending_text_ += "\r\n";
    owe(Step::auth);
  } else if (!reply.positive()) {
    login_failed(&reply, {});
  } else if (!exchange_->satisfied()) {
    login_failed(nullptr, "it agreed before it proved that it knows the password");
  } else {
    settle_login(false);
  }
}

void Engine::settle_login(bool refused) {
  login_settled_ = true;
  exchange_.reset();
  if (!refused) not_for_us_.reset();
  offers_.null_auth = !refused && settings_.send_dummy_auth;
  become_ready();
}

}  // namespace pen::smtp
