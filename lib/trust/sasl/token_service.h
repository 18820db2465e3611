#pragma once
/// Decides logins by token, in the process itself: the mechanism OAUTHBEARER with the tokens of a file.
///
/// Use:     server.authenticator = std::make_shared<TokenService>(TokenFile::read(path));
/// Form:    the client's response is "n,,^Aauth=Bearer TOKEN^A^A"; an authorization identity, if there is one, must be
///          the login of the token. A wrong token gets a challenge with {"status":"invalid_token"}, and the login fails
///          at the client's next response.
/// Errors:  a file that cannot be read makes every login one that is not possible now.
/// Source:  RFC 7628, RFC 5801 section 4 (the header). The tokens are ours, and not those of an OAuth server.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/sasl/authenticator.h"
#include "lib/trust/sasl/token_file.h"

namespace pen::sasl {

struct BearerResponse {
  std::string identity;  // empty: none is asked for
  std::string token;
};
/// Takes a client's first response apart, without its base 64. nullopt: it has another form.
std::optional<BearerResponse> parse_bearer(std::string_view response);
/// What a client says, without base 64. The token must be visible ASCII.
std::string bearer_response(std::string_view token);

class TokenService final : public Authenticator {
 public:
  explicit TokenService(Result<TokenFile> tokens);
  const std::vector<Mechanism>& mechanisms() const override { return mechanisms_; }
  async::Task<void> settled(async::Until until) override;
  std::unique_ptr<Exchange> begin() override;
  /// Why nobody can log in; empty: the tokens were read.
  const std::string& problem() const { return problem_; }

 private:
  class One;
  Answer decide(std::string_view base64) const;

  std::vector<Mechanism> mechanisms_;
  TokenFile tokens_;
  std::string problem_;
};

}  // namespace pen::sasl
