#pragma once
/// Credentials and rules for AUTH on one connection. logins.h finds them, handshake_auth.cc uses them.
///
/// Secrets: held as long as the connection lives; never logged.
/// Source:  Postfix smtp(8), postconf(5) smtp_sasl_*; RFC 4954.
#include <memory>
#include <string>

#include "lib/map/match_list.h"
#include "lib/trust/sasl/client.h"

namespace pen::smtp {

struct Login {
  sasl::Credentials credentials;
  sasl::SecurityOptions clear, secured;          // allowed mechanisms, without and with TLS
  std::shared_ptr<const map::MatchList> filter;  // smtp_sasl_mechanism_filter; nullptr: none
  // smtp_sasl_auth_soft_bounce: a permanent refusal defers the mail, because passwords are mistyped and expire.
  bool defer_refused = true;
  std::string nonce;  // new for each connection
};

}  // namespace pen::smtp
