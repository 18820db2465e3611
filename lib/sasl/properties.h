#pragma once
/// What can be said for and against SASL mechanisms, and the *_sasl_*security_options that ask for it.
///
/// Use:     auto wanted = SecurityOptions::parse(settings.smtpd_sasl_security_options);
///          if (wanted->allow(mechanism.properties)) …
/// Source:  Postfix postconf(5) smtpd_sasl_security_options; the words of Dovecot's MECH lines.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::sasl {

namespace property {
inline constexpr unsigned kPlaintext = 1, kDictionary = 2, kActive = 4, kAnonymous = 8, kForwardSecrecy = 16,
                          kMutualAuth = 32, kPrivate = 64;
}

enum class SaslError {
  bad_setting = 1,  // a setting's value makes no sense
  bad_line,         // the authentication server says what its protocol does not have
  wrong_version,    // a protocol that this version does not speak
  no_mechanism,     // it offers none
  bad_challenge,    // what the server asks of a client cannot be answered
  no_address,       // the host's name has none, or cannot be looked up
};
inline std::string_view error_module(SaslError) { return "SASL"; }
std::string_view describe(SaslError e);

/// A mechanism that one side offers.
struct Mechanism {
  std::string name;  // upper case
  unsigned properties = 0;
  bool operator==(const Mechanism&) const = default;
};

/// What is known of a mechanism by its name alone, for a peer that says nothing but that.
unsigned known_properties(std::string_view mechanism);

struct SecurityOptions {
  unsigned forbidden = 0;  // a mechanism with one of these is out
  unsigned required = 0;   // one without these is out
  bool allow(unsigned properties) const {
    return (properties & forbidden) == 0 && (properties & required) == required &&
           (properties & property::kPrivate) == 0;
  }
  /// noplaintext, noactive, nodictionary, noanonymous, forward_secrecy, mutual_auth. Error: bad_setting.
  static Result<SecurityOptions> parse(const std::vector<std::string>& words);
};

}  // namespace pen::sasl
