#include "lib/smtpd/auth.h"

#include "lib/base/text.h"

namespace pen::smtpd {

bool AuthPolicy::available(const config::Settings& s) {
  return s.smtpd_sasl_auth_enable && iequals(s.smtpd_sasl_type, "dovecot");
}

Result<sasl::ServiceAddress> AuthPolicy::service(const config::Settings& s) {
  auto address = sasl::parse_named_service(s.smtpd_sasl_path, s.queue_directory);
  if (!address) return fail(std::move(address).error().within("smtpd_sasl_path"));
  return address;
}

std::string AuthPolicy::unavailable(const config::Settings& s) {
  if (!s.smtpd_sasl_auth_enable || available(s)) return {};
  return "smtpd_sasl_auth_enable = yes: AUTH is not offered and nobody can log in, because "
         "smtpd_sasl_type \"" +
         printable(s.smtpd_sasl_type, 50) +
         "\" is not available, only dovecot: set smtpd_sasl_type = dovecot and smtpd_sasl_path";
}

Result<AuthPolicy> AuthPolicy::open(const config::Settings& s, const map::OpenOptions& open) {
  AuthPolicy auth;
  auto logins = map::MapList::open(join(s.smtpd_sender_login_maps), open);
  if (!logins) return fail(std::move(logins).error().within("smtpd_sender_login_maps"));
  auth.sender_logins = *std::move(logins);
  auth.enabled = available(s);
  if (!auth.enabled) return auth;
  const auto options = [](sasl::SecurityOptions& into, const std::vector<std::string>& words,
                          const char* name) -> Result<void> {
    auto parsed = sasl::SecurityOptions::parse(words);
    if (!parsed) return fail(std::move(parsed).error().within(name));
    into = *parsed;
    return {};
  };
  PEN_TRY(options(auth.clear, s.smtpd_sasl_security_options, "smtpd_sasl_security_options"));
  PEN_TRY(options(auth.secured, s.smtpd_sasl_tls_security_options, "smtpd_sasl_tls_security_options"));
  const auto list = [&](map::MatchList& into, map::MatchList::Kind kind, const std::vector<std::string>& items,
                        const char* name) -> Result<void> {
    auto opened = map::MatchList::open(
        kind, join(items),
        {.parent_domains = list_contains(join(s.parent_domain_matches_subdomains), name), .open = open});
    if (!opened) return fail(std::move(opened).error().within(name));
    into = *std::move(opened);
    return {};
  };
  using Kind = map::MatchList::Kind;
  PEN_TRY(list(auth.mechanism_filter, Kind::string, s.smtpd_sasl_mechanism_filter, "smtpd_sasl_mechanism_filter"));
  PEN_TRY(list(auth.exceptions, Kind::host, s.smtpd_sasl_exceptions_networks, "smtpd_sasl_exceptions_networks"));
  return auth;
}

std::vector<std::string> AuthPolicy::offered(const std::vector<sasl::Mechanism>& mechanisms, bool is_secured) const {
  std::vector<std::string> names;
  for (const auto& mechanism : mechanisms) {
    if (!(is_secured ? secured : clear).allow(mechanism.properties)) continue;
    // An empty list filters nothing, as for every list of this kind in Postfix.
    if (!mechanism_filter.empty() && !mechanism_filter.matches(mechanism.name).value_or(false)) continue;
    names.push_back(mechanism.name);
  }
  return names;
}

}  // namespace pen::smtpd
