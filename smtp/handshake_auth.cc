// AUTH (RFC 4954): after the last EHLO and before the first message, where the connection has credentials.
#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "smtp/handshake.h"
#include "smtp/login.h"

namespace pen::smtp {

namespace {
constexpr unsigned kMaxChallenges = 8;  // no mechanism that is implemented here needs more than two
}  // namespace

/// True: AUTH is in progress, or the connection has ended because no mechanism fits.
bool Handshake::login_comes_first() {
  if (!settings_.login || offers_.auth.empty()) return false;
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
  std::string command = "AUTH ";
  command += exchange_->mechanism();
  if (const auto initial = exchange_->initial()) {
    command += ' ';
    command += initial->empty() ? "=" : base64_encode(*initial);
  }
  say(std::move(command), Step::auth);
  return true;
}

void Handshake::on_auth_reply(const mail::Reply& reply) {
  if (reply.intermediate()) {
    std::string_view text = trim(std::string_view(reply.text).substr(3));
    const auto challenge = base64_decode(text);
    if (++challenges_ > kMaxChallenges || !challenge) {
      login_failed(nullptr, challenge ? "too many challenges" : "malformed challenge");
      return;
    }
    const auto response = exchange_->respond(*challenge);
    if (!response) {
      login_failed(nullptr, response.error().context());
      return;
    }
    say(base64_encode(*response), Step::auth, true);
  } else if (!reply.positive()) {
    login_failed(&reply, {});
  } else if (!exchange_->satisfied()) {
    login_failed(nullptr, "it agreed before it proved that it knows the password");
  } else {
    exchange_.reset();
    offers_.null_auth = settings_.send_dummy_auth;
    phase_ = Phase::done;
  }
}

/// reply: the peer's refusal; nullptr: we give up ourselves, because of `why`.
void Handshake::login_failed(const mail::Reply* reply, std::string_view why) {
  mail::DeliveryStatus status{mail::Action::deferred, "4.7.0", {}, {}, peer_.host};
  if (reply == nullptr) {
    status.text = "SASL authentication failed; cannot authenticate to server " + peer_.shown + ": " + std::string(why);
    ending_.leave(Trouble::greeting_4xx, std::move(status));
    return;
  }
  ending_.note_refusal(*reply);
  status.dsn = reply->dsn_or_default();
  status.text = "SASL authentication failed; server " + peer_.shown + " said: " + reply->text;
  status.diagnostic = "smtp; " + reply->text;
  if (reply->permanent() && !settings_.login->defer_refused) {
    // The connection stays open, and every job handed to it gets this answer without a command.
    status.action = mail::Action::failed;
    exchange_.reset();
    refusal_ = std::move(status);
    offers_.null_auth = false;
    phase_ = Phase::done;
    return;
  }
  status.dsn[0] = '4';
  ending_.leave(reply->code == 421 ? Trouble::peer_421 : Trouble::greeting_4xx, std::move(status));
}

}  // namespace pen::smtp
