#pragma once
/// SASL mechanisms, the client's side: challenges in, responses out. No I/O.
///
/// Use:     auto exchange = choose(server_offers, allowed, credentials, nonce);   // nullptr: none fits
///          send exchange->mechanism(), and exchange->initial() where there is one;
///          for each challenge: auto response = exchange->respond(bytes);          // an Error: give up
///          when the server says yes: if (!exchange->satisfied()) …                // it did not prove who it is
/// Form:    raw bytes; base 64 is the protocol's business.
/// Order:   SCRAM-SHA-256, SCRAM-SHA-1, CRAM-MD5, PLAIN, LOGIN, XOAUTH2: what gives the least away comes first. XOAUTH2
///          is last because its password is an access token: who has one leaves only it in the mechanism filter.
/// Source:  RFC 4616 (PLAIN), draft-murchison-sasl-login, RFC 2195 (CRAM-MD5), RFC 5802 and 7677 (SCRAM), Google's and
///          Microsoft's descriptions of XOAUTH2. Passwords are used byte for byte (no SASLprep), which is the same
///          for all of ASCII.
/// Bounds:  kMaxIterations, since the server says how much work a SCRAM response is.
/// Errors:  SaslError::bad_challenge; its text never holds a secret.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/sasl/properties.h"

namespace pen::sasl {

inline constexpr unsigned kMaxIterations = 200'000;  // some 50 ms

struct Credentials {
  std::string user, password;
};

class ClientExchange {
 public:
  virtual ~ClientExchange() = default;
  virtual std::string_view mechanism() const = 0;
  /// The initial response; nullopt: the server speaks first.
  virtual std::optional<std::string> initial() { return std::nullopt; }
  virtual Result<std::string> respond(std::string_view challenge) = 0;
  virtual bool satisfied() const { return true; }
};

/// The best mechanism that the server offers, `allowed` lets through and this version has.
/// nonce: printable, without a comma, not used before; 18 random bytes in base 64 do.
std::unique_ptr<ClientExchange> choose(const std::vector<std::string>& offered,
                                       const std::function<bool(const Mechanism&)>& allowed,
                                       const Credentials& credentials, std::string nonce);

}  // namespace pen::sasl
