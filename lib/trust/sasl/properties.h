#pragma once
/// Security properties of SASL mechanisms, and the settings *_sasl_*security_options that select by them.
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
  bad_setting = 1,  // the value of a setting makes no sense
  bad_line,         // the authentication server's line violates its protocol
  wrong_version,    // an unknown version of the protocol
  no_mechanism,     // the server offers no mechanism
  bad_challenge,    // the server's challenge cannot be answered
  no_address,       // the host's name has no address, or cannot be looked up
};
inline std::string_view error_module(SaslError) { return "SASL"; }
std::string_view describe(SaslError e);

/// A mechanism that one side offers.
struct Mechanism {
  std::string name;  // upper case
  unsigned properties = 0;
  bool operator==(const Mechanism&) const = default;
};

/// The properties of a mechanism by its name alone, for a peer that states nothing else.
unsigned known_properties(std::string_view mechanism);

struct SecurityOptions {
  unsigned forbidden = 0;  // a mechanism with one of these is excluded
  unsigned required = 0;   // a mechanism without one of these is excluded
  bool allow(unsigned properties) const {
    return (properties & forbidden) == 0 && (properties & required) == required &&
           (properties & property::kPrivate) == 0;
  }
  /// noplaintext, noactive, nodictionary, noanonymous, forward_secrecy, mutual_auth. Error: bad_setting.
  static Result<SecurityOptions> parse(const std::vector<std::string>& words);
};

}  // namespace pen::sasl
