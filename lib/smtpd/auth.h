#pragma once
/// What the settings say of AUTH, and who is logged in.
///
/// Use:     auto auth = AuthPolicy::open(settings, open_options);       // part of Policy
///          for (name : auth->offered(authenticator.mechanisms(), secured)) …    // the EHLO line
///          session_auth.cc has the dialogue, checks_login.cc the restrictions about logins.
/// Source:  RFC 4954; Postfix SASL_README, postconf(5) smtpd_sasl_*.
/// Thread:  immutable; any.
#include <string>
#include <vector>

#include "lib/config/settings.h"
#include "lib/map/match_list.h"
#include "lib/sasl/dovecot_service.h"
#include "lib/sasl/properties.h"

namespace pen::smtpd {

/// A client that has proved who it is. Both are fit for a log line.
struct Login {
  std::string method, username;
};

struct AuthPolicy {
  bool enabled = false;
  sasl::SecurityOptions clear,
      secured;  // smtpd_sasl_security_options, smtpd_sasl_tls_security_options
  map::MatchList mechanism_filter;
  map::MatchList exceptions;   // smtpd_sasl_exceptions_networks: clients that AUTH is not offered to
  map::MapList sender_logins;  // smtpd_sender_login_maps

  /// Whether AUTH is asked for and there is something that checks log-ins: smtpd_sasl_type is dovecot.
  static bool available(const config::Settings& s);
  /// Where it is. Error: bad_setting.
  static Result<sasl::ServiceAddress> service(const config::Settings& s);
  /// What follows where it is asked for and not available; "": it is not so.
  static std::string unavailable(const config::Settings& s);
  /// Errors: bad_setting, and what opening a table says.
  static Result<AuthPolicy> open(const config::Settings& s, const map::OpenOptions& open);
  /// Names of those mechanisms that a client may use; a filter that cannot be asked lets none through.
  std::vector<std::string> offered(const std::vector<sasl::Mechanism>& mechanisms, bool is_secured) const;
};

}  // namespace pen::smtpd
