#pragma once
/// SASL mechanisms, the client's side: challenges in, responses out. No I/O.
///
/// Use:     auto exchange = choose(server_offers, allowed, credentials, nonce);   // nullptr: none fits
///          send exchange->mechanism(), and exchange->initial() if it has one;
///          for each challenge: auto response = exchange->respond(bytes);          // an Error: give up
///          when the server accepts: if (!exchange->satisfied()) …                // it did not prove its identity
/// Form:    raw bytes; the caller adds base 64.
/// Order:   SCRAM-SHA-256, SCRAM-SHA-1, CRAM-MD5, PLAIN, LOGIN, XOAUTH2: mechanisms that reveal least come first.
///          XOAUTH2 is last because its password is an access token: a user with one leaves only XOAUTH2 in the
///          mechanism filter.
/// Source:  RFC 4616 (PLAIN), draft-murchison-sasl-login, RFC 2195 (CRAM-MD5), RFC 5802 and 7677 (SCRAM), Google's and
///          Microsoft's descriptions of XOAUTH2. Passwords are used byte for byte, without SASLprep; for ASCII the
///          result is the same.
/// Bounds:  kMaxIterations, because the server decides how much work a SCRAM response is.
/// Errors:  SaslError::bad_challenge; its text never holds a secret.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/sasl/properties.h"

namespace pen::sasl {

inline constexpr unsigned kMaxIterations = 200'000;  // some 50 ms

struct Credentials {
  std::string user, password;
};

class ClientExchange {
 public:
  virtual ~ClientExchange() = default;
  virtual std::string_view mechanism() const = 0;
  /// The initial response; nullopt: the server begins.
  virtual std::optional<std::string> initial() { return std::nullopt; }
  virtual Result<std::string> respond(std::string_view challenge) = 0;
  virtual bool satisfied() const { return true; }
};

/// The best mechanism that the server offers, `allowed` accepts and this version has. nonce: printable, without a
/// comma, never used before; 18 random bytes in base 64 will do.
std::unique_ptr<ClientExchange> choose(const std::vector<std::string>& offered,
                                       const std::function<bool(const Mechanism&)>& allowed,
                                       const Credentials& credentials, std::string nonce);

}  // namespace pen::sasl
