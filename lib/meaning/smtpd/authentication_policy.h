#pragma once
/// Whether SPF, DKIM and DMARC are checked, for which clients not, and what follows from a failure: the settings, read.
///
/// Use:     auto policy = AuthenticationPolicy::read(settings, open, warnings);  if (policy->any()) …
/// Errors:  an unknown word in dmarc_reject_action or dmarc_quarantine_action; the list of clients; the list of
///          public suffixes, if DMARC is checked; the list of sealed domains, where tables of other processes are an
///          error too.
/// Thread:  immutable; any.
#include <cstdint>
#include <memory>

#include "lib/config/settings.h"
#include "lib/map/match_list.h"
#include "lib/trust/dmarc/suffixes.h"

namespace pen::smtpd {

enum class AuthenticationError { bad_action = 1, waits };
inline std::string_view error_module(AuthenticationError) { return "authentication"; }
std::string_view describe(AuthenticationError e);

struct AuthenticationPolicy {
  enum class Action : std::uint8_t { none, hold, reject };
  bool spf = false, dkim = false, dmarc = false;
  Action quarantine = Action::none, reject = Action::none;
  map::MatchList exempt;                            // authentication_results_exempt_clients
  map::MatchList sealed_domains;                    // arc_seal_domains
  bool seals_all = false;                           // they are all
  std::shared_ptr<const dmarc::Suffixes> suffixes;  // nullptr: the tree walk
  bool any() const { return spf || dkim; }

  static Result<AuthenticationPolicy> read(const config::Settings& settings, const map::MatchList::Options& options);
};

}  // namespace pen::smtpd
