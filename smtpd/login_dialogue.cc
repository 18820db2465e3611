#include "smtpd/login_dialogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

// how long EHLO waits, after the start of the process, for the connection to the service
constexpr milliseconds kSettle{3000};
constexpr std::size_t kShown = 100;  // bytes of the client's text in log lines

}  // namespace

async::Task<std::string> LoginDialogue::offered() {
  const AuthPolicy& auth = talk_.policy().auth;
  // Where every command but STARTTLS is refused in clear text, nobody may be led to send a password in it.
  const bool wants_tls = talk_.settings().smtpd_tls_auth_only || talk_.policy().tls.level == TlsLevel::encrypt;
  if (!auth.enabled || !talk_.server.authenticator || (wants_tls && !talk_.client.secured()) || talk_.standing.no_auth)
    co_return std::string();
  async::Until wait = talk_.until();
  wait.deadline = std::min(wait.deadline, talk_.server.loop.now() + kSettle);
  co_await talk_.server.authenticator->settled(wait);
  const auto names = auth.offered(talk_.server.authenticator->mechanisms(), talk_.client.secured());
  co_return names.empty() ? std::string() : join(names);
}

sasl::Authenticator::Request LoginDialogue::request_of(std::string mechanism) const {
  sasl::Authenticator::Request request;
  request.mechanism = std::move(mechanism);
  request.service = talk_.settings().smtpd_sasl_service;
  request.secured = talk_.client.secured();
  if (const auto own = talk_.own_end(); own && !own->is_unix()) {
    request.local_address = own->host;
    request.local_port = own->port;
  }
  if (talk_.client.peer.address != kUnknownAddress) request.remote_address = talk_.client.peer.address;
  request.remote_port = talk_.client.peer.port;
  return request;
}

async::Task<std::expected<std::string, Flow>> LoginDialogue::read_response(std::string_view mechanism) {
  const auto limit = static_cast<std::size_t>(talk_.settings().smtpd_sasl_response_limit);
  auto line = co_await talk_.stream.read_raw_line(limit + 1, talk_.until());  // with its CR
  if (!line) {
    if (!line.error().is(async::WaitError::line_too_long)) co_return std::unexpected(talk_.read_failed(line.error()));
    if (auto skipped = co_await talk_.stream.discard_line(talk_.until()); !skipped)
      co_return std::unexpected(talk_.read_failed(skipped.error()));
    talk_.watchers.heard_response();
    log::warning("{}: SASL {} authentication failed: response too long", talk_.client.peer.shown(), mechanism);
    tell_auth_failed(talk_.client, mechanism, {}, "response too long");
    count_failed_login();
    co_return std::unexpected(co_await talk_.refuse("500 5.5.6 Error: authentication exchange line is too long"));
  }
  line->remove_suffix(1);
  const bool bare = !line->ends_with('\r');
  while (line->ends_with('\r')) line->remove_suffix(1);
  talk_.watchers.heard_response();
  if (bare && talk_.standing.forbid_bare_newline) co_return std::unexpected(talk_.bare_newline());
  if (*line == "*") {
    log::warning("{}: SASL {} authentication aborted", talk_.client.peer.shown(), mechanism);
    co_return std::unexpected(co_await talk_.refuse("501 5.7.0 Authentication aborted"));
  }
  co_return std::string(*line);
}

async::Task<Flow> LoginDialogue::run(std::string mechanism, std::optional<std::string> response) {
  sasl::Authenticator& authenticator = *talk_.server.authenticator;
  co_await authenticator.settled(talk_.until());
  const auto& known = authenticator.mechanisms();
  const auto offered = talk_.policy().auth.offered(known, talk_.client.secured());
  const std::string shown = printable(mechanism, kShown);
  if (!known.empty() && std::ranges::find(offered, mechanism) == offered.end()) {
    log::warning("{}: SASL {} authentication failed: Invalid authentication mechanism", talk_.client.peer.shown(),
                 shown);
    tell_auth_failed(talk_.client, shown, {}, "Invalid authentication mechanism");
    count_failed_login();
    co_return co_await talk_.refuse("535 5.7.8 Error: authentication failed: Invalid authentication mechanism", {});
  }
  const auto exchange = authenticator.begin();
  sasl::Authenticator::Request request = request_of(std::move(mechanism));
  for (bool first = true;; first = false) {
    if (response && !valid_base64(*response)) {
      log::warning("{}: SASL {} authentication failed: malformed response", talk_.client.peer.shown(), shown);
      tell_auth_failed(talk_.client, shown, {}, "malformed response");
      count_failed_login();
      co_return co_await talk_.refuse("501 5.5.2 Error: authentication failed: cannot decode response");
    }
    sasl::Answer answer;
    if (first) {
      if (response) request.initial = *response;
      answer = co_await exchange->start(request, talk_.until());
    } else {
      answer = co_await exchange->respond(*std::exchange(response, {}), talk_.until());
    }
    if (answer.kind != sasl::Answer::Kind::challenge) co_return co_await end(std::move(answer), shown);
    talk_.write_reply("334 " + answer.text + "\r\n");
    auto next = co_await read_response(shown);
    if (!next) co_return next.error();
    response = *std::move(next);
  }
}

async::Task<Flow> LoginDialogue::end(sasl::Answer answer, std::string mechanism) {
  using Kind = sasl::Answer::Kind;
  if (answer.kind == Kind::ok) {
    talk_.client.login = std::make_unique<Login>(Login{.method = std::move(mechanism),
                                                       .username = printable(answer.user),
                                                       .senders = std::move(answer.senders),
                                                       .by_token = AuthPolicy::by_token(talk_.settings())});
    metrics::smtpd_authentications.add();
    talk_.reply("235 2.7.0 Authentication successful");
    co_return Flow::go_on;
  }
  const std::string user = answer.user.empty() ? "(unavailable)" : printable(answer.user, kShown);
  const std::string why = answer.text.empty() ? "(reason unavailable)" : printable(answer.text, 200);
  if (answer.kind == Kind::temporary) {
    // Not "authentication failed": tools that lock out guessers look for these words, and this was no guess.
    log::warning("{}: SASL {} authentication not possible now: {}, sasl_username={}", talk_.client.peer.shown(),
                 mechanism, why, user);
    co_return co_await talk_.refuse("454 4.7.0 Temporary authentication failure: try again later",
                                    mail::ErrorClass::software);
  }
  log::warning("{}: SASL {} authentication failed: {}, sasl_username={}", talk_.client.peer.shown(), mechanism, why,
               user);
  tell_auth_failed(talk_.client, mechanism, answer.user, why);
  count_failed_login();
  co_return co_await talk_.refuse("535 5.7.8 Error: authentication failed: " + why, {});  // a wrong password
}

}  // namespace pen::smtpd
