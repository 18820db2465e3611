#pragma once
/// AUTH: the exchange of RFC 4954 between the client and the authentication service.
///
/// Use:     talk.write_reply(ehlo_reply(talk, co_await LoginDialogue(talk).offered()));
///          co_return co_await LoginDialogue(talk).run("PLAIN", initial);       // the client has its reply
/// Result:  ClientFacts::login. Whether AUTH is allowed at all, the verb finds out (Session::auth).
/// Thread:  the loop's. The Conversation outlives it.
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "lib/trust/sasl/authenticator.h"
#include "smtpd/conversation.h"

namespace pen::smtpd {

class LoginDialogue {
 public:
  explicit LoginDialogue(Conversation& talk) : talk_(talk) {}

  /// The mechanisms that EHLO offers, separated by blanks. Empty: AUTH is not offered.
  [[gnu::noinline]] async::Task<std::string> offered();
  /// Runs one exchange. response: the initial response, base 64.
  [[gnu::noinline]] async::Task<Flow> run(std::string mechanism, std::optional<std::string> response);

 private:
  sasl::Authenticator::Request request_of(std::string mechanism) const;
  /// Reads the client's response to a challenge, base 64. Error: how the session continues. mechanism: for the log.
  [[gnu::noinline]] async::Task<std::expected<std::string, Flow>> read_response(std::string_view mechanism);
  [[gnu::noinline]] async::Task<Flow> end(sasl::Answer answer, std::string mechanism);
  void count_failed_login() {
    metrics::smtpd_authentication_failures.add();
    talk_.reason = metrics::Reason::sasl;
  }

  Conversation& talk_;
};

}  // namespace pen::smtpd
