#pragma once
/// AUTH as configured, and the logged-in client.
///
/// Use:     auto auth = AuthPolicy::open(settings, open_options);       // part of Policy
///          for (name : auth->offered(authenticator.mechanisms(), secured)) …    // the EHLO line
///          LoginDialogue (smtpd) has the dialogue, checks_login.cc the restrictions about logins.
/// Source:  RFC 4954; Postfix SASL_README, postconf(5) smtpd_sasl_*.
/// Thread:  immutable; any.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/map/match_list.h"
#include "lib/trust/sasl/dovecot_service.h"
#include "lib/trust/sasl/properties.h"
#include "lib/trust/sasl/token_file.h"

namespace pen::smtpd {

/// A client that has proved its identity. Both texts are fit for a log line.
struct Login {
  std::string method, username;
  std::shared_ptr<const sasl::Senders> senders = nullptr;  // that it may use; nullptr: restrictions decide
  bool by_token = false;                                   // smtpd_sasl_type = token
  /// Whether the login may use the sender: an address, empty: the null sender.
  bool may_send_as(std::string_view sender) const;
};

struct AuthPolicy {
  bool enabled = false;
  sasl::SecurityOptions clear,
      secured;  // smtpd_sasl_security_options, smtpd_sasl_tls_security_options
  map::MatchList mechanism_filter;
  map::MatchList exceptions;   // smtpd_sasl_exceptions_networks: clients to which AUTH is not offered
  map::MapList sender_logins;  // smtpd_sender_login_maps

  /// Whether AUTH is enabled and smtpd_sasl_type is one that there is: cyrus, table, token or dovecot.
  static bool available(const config::Settings& s);
  /// AUTH is enabled, and this process decides by smtpd_sasl_token_file.
  static bool by_token(const config::Settings& s);
  /// How to reach the service that checks logins; nullopt: it is the program cyrus, and master.cf has none. Error:
  /// bad_setting.
  static Result<std::optional<sasl::DovecotService::Peer>> service(const config::Config& config);
  /// The consequence if AUTH is enabled and not available; "": there is no such problem.
  static std::string unavailable(const config::Config& config);
  /// Errors: bad_setting, and those of opening a table.
  static Result<AuthPolicy> open(const config::Settings& s, const map::OpenOptions& open);
  /// The names of those mechanisms that a client may use. If the filter's table cannot be read, none.
  std::vector<std::string> offered(const std::vector<sasl::Mechanism>& mechanisms, bool is_secured) const;
};

}  // namespace pen::smtpd
