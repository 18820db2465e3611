#pragma once
/// What one connection is to do about logging in at its peer (AUTH). logins.h finds it, engine_auth.cc does it.
///
/// Secrets: held as long as the connection lives; never logged.
/// Source:  Postfix smtp(8), postconf(5) smtp_sasl_*; RFC 4954.
#include <memory>
#include <string>

#include "lib/map/match_list.h"
#include "lib/sasl/client.h"

namespace pen::smtp {

struct Login {
  sasl::Credentials credentials;
  sasl::SecurityOptions clear, secured;          // which mechanisms, without and with TLS
  std::shared_ptr<const map::MatchList> filter;  // smtp_sasl_mechanism_filter; nullptr: none
  // smtp_sasl_auth_soft_bounce: a refusal for good defers mail, because passwords are mistyped, and they expire
  bool defer_refused = true;
  std::string nonce;  // fresh
};

}  // namespace pen::smtp
