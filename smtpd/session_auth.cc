/// AUTH: the exchange of RFC 4954 between the client and the authentication service.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/sasl/base64.h"
#include "smtpd/session.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

// how long EHLO waits, after the start of the process, for the connection to the service
constexpr milliseconds kSettle{3000};
constexpr std::size_t kShown = 100;  // bytes of the client's text in log lines

}  // namespace

async::Task<std::string> Session::auth_keyword() {
  const AuthPolicy& auth = policy_->auth;
  // Where every command but STARTTLS is refused in clear text, nobody may be led to send a password in it.
  const bool wants_tls = settings().smtpd_tls_auth_only || policy_->tls.level == TlsLevel::encrypt;
  if (!auth.enabled || !server_.authenticator || (wants_tls && !client_.secured()) || standing_.no_auth)
    co_return std::string();
  async::Until wait = until();
  wait.deadline = std::min(wait.deadline, server_.loop.now() + kSettle);
  co_await server_.authenticator->settled(wait);
  const auto names = auth.offered(server_.authenticator->mechanisms(), client_.secured());
  co_return names.empty() ? std::string() : join(names);
}

async::Task<Session::Flow> Session::auth(const mail::CommandLine& line) {
  const auto& s = settings();
  if (s.smtpd_helo_required && client_.helo.empty()) co_return co_await refuse("503 5.5.1 Error: send HELO/EHLO first");
  if (!policy_->auth.enabled || !server_.authenticator || (discarded().bits & keyword::kAuth) != 0)
    co_return co_await refuse("503 5.5.1 Error: authentication not enabled");
  if (transaction_) co_return co_await refuse("503 5.5.1 Error: MAIL transaction in progress");
  if (s.smtpd_tls_auth_only && !client_.secured())
    co_return co_await refuse("504 5.5.4 Encryption required for requested authentication mechanism");
  if (client_.login) co_return co_await refuse("503 5.5.1 Error: already authenticated");
  if (co_await limits_.too_often(ClientLimits::Event::auth, s.smtpd_client_auth_rate_limit))
    co_return co_await refuse("450 4.7.1 Error: too many AUTH commands from " + client_.peer.address,
                              mail::ErrorClass::policy);
  const auto words = split(line.args, " \t");
  if (words.empty() || words.size() > 2) co_return co_await refuse("501 5.5.4 Syntax: AUTH mechanism");
  std::string mechanism(words[0]);
  for (char& c : mechanism)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  std::optional<std::string> initial;
  if (words.size() == 2) initial = words[1] == "=" ? std::string_view() : words[1];
  co_return co_await log_in(std::move(mechanism), std::move(initial));
}

sasl::Authenticator::Request Session::login_request(std::string mechanism) const {
  sasl::Authenticator::Request request;
  request.mechanism = std::move(mechanism);
  request.service = settings().smtpd_sasl_service;
  request.secured = client_.secured();
  if (const auto own = own_end(); own && !own->is_unix()) {
    request.local_address = own->host;
    request.local_port = own->port;
  }
  if (client_.peer.address != kUnknownAddress) request.remote_address = client_.peer.address;
  request.remote_port = client_.peer.port;
  return request;
}

async::Task<std::expected<std::string, Session::Flow>> Session::read_response(std::string_view mechanism) {
  const auto limit = static_cast<std::size_t>(settings().smtpd_sasl_response_limit);
  auto line = co_await stream_.read_raw_line(limit + 1, until());  // with its CR
  if (!line) {
    if (!line.error().is(async::WaitError::line_too_long)) co_return std::unexpected(read_failed(line.error()));
    if (auto skipped = co_await stream_.discard_line(until()); !skipped)
      co_return std::unexpected(read_failed(skipped.error()));
    watchers_.heard_response();
    log::warning("{}: SASL {} authentication failed: response too long", client_.peer.shown(), mechanism);
    tell_auth_failed(client_, mechanism, {}, "response too long");
    count_failed_login();
    co_return std::unexpected(co_await refuse("500 5.5.6 Error: authentication exchange line is too long"));
  }
  line->remove_suffix(1);
  const bool bare = !line->ends_with('\r');
  if (!bare) line->remove_suffix(1);
  watchers_.heard_response();
  if (bare && forbid_bare_newline_) co_return std::unexpected(bare_newline());
  if (*line == "*") {
    log::warning("{}: SASL {} authentication aborted", client_.peer.shown(), mechanism);
    co_return std::unexpected(co_await refuse("501 5.7.0 Authentication aborted"));
  }
  co_return std::string(*line);
}

async::Task<Session::Flow> Session::log_in(std::string mechanism, std::optional<std::string> response) {
  sasl::Authenticator& authenticator = *server_.authenticator;
  co_await authenticator.settled(until());
  const auto& known = authenticator.mechanisms();
  const auto offered = policy_->auth.offered(known, client_.secured());
  const std::string shown = printable(mechanism, kShown);
  if (!known.empty() && std::ranges::find(offered, mechanism) == offered.end()) {
    log::warning("{}: SASL {} authentication failed: Invalid authentication mechanism", client_.peer.shown(), shown);
    tell_auth_failed(client_, shown, {}, "Invalid authentication mechanism");
    count_failed_login();
    co_return co_await refuse("535 5.7.8 Error: authentication failed: Invalid authentication mechanism", {});
  }
  const auto exchange = authenticator.begin();
  sasl::Authenticator::Request request = login_request(std::move(mechanism));
  for (bool first = true;; first = false) {
    if (response && !sasl::valid_base64(*response)) {
      log::warning("{}: SASL {} authentication failed: malformed response", client_.peer.shown(), shown);
      tell_auth_failed(client_, shown, {}, "malformed response");
      count_failed_login();
      co_return co_await refuse("501 5.5.2 Error: authentication failed: cannot decode response");
    }
    sasl::Answer answer;
    if (first) {
      if (response) request.initial = *response;
      answer = co_await exchange->start(request, until());
    } else {
      answer = co_await exchange->respond(*std::exchange(response, {}), until());
    }
    if (answer.kind != sasl::Answer::Kind::challenge) co_return co_await end_log_in(std::move(answer), shown);
    write_reply("334 " + answer.text + "\r\n");
    auto next = co_await read_response(shown);
    if (!next) co_return next.error();
    response = *std::move(next);
  }
}

async::Task<Session::Flow> Session::end_log_in(sasl::Answer answer, std::string mechanism) {
  using Kind = sasl::Answer::Kind;
  if (answer.kind == Kind::ok) {
    client_.login = std::make_unique<Login>(Login{.method = std::move(mechanism),
                                                  .username = printable(answer.user),
                                                  .senders = std::move(answer.senders),
                                                  .by_token = AuthPolicy::by_token(settings())});
    metrics::smtpd_authentications.add();
    reply("235 2.7.0 Authentication successful");
    co_return Flow::go_on;
  }
  const std::string user = answer.user.empty() ? "(unavailable)" : printable(answer.user, kShown);
  const std::string why = answer.text.empty() ? "(reason unavailable)" : printable(answer.text, 200);
  if (answer.kind == Kind::temporary) {
    // Not "authentication failed": tools that lock out guessers look for these words, and this was no guess.
    log::warning("{}: SASL {} authentication not possible now: {}, sasl_username={}", client_.peer.shown(), mechanism,
                 why, user);
    co_return co_await refuse("454 4.7.0 Temporary authentication failure: try again later",
                              mail::ErrorClass::software);
  }
  log::warning("{}: SASL {} authentication failed: {}, sasl_username={}", client_.peer.shown(), mechanism, why, user);
  tell_auth_failed(client_, mechanism, answer.user, why);
  count_failed_login();
  co_return co_await refuse("535 5.7.8 Error: authentication failed: " + why, {});  // a wrong password
}

}  // namespace pen::smtpd
