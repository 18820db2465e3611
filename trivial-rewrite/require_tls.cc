#include "trivial-rewrite/require_tls.h"

#include "lib/base/text.h"
#include "lib/receive/resolve/resolve.h"

namespace pen::rewrite {

using ipc::TlsLevel;

namespace {

std::optional<RequireTlsRule> rule_of(std::string_view word) {
  if (iequals(word, "enforce")) return RequireTlsRule::enforce;
  if (iequals(word, "opportunistic+starttls")) return RequireTlsRule::opportunistic_starttls;
  if (iequals(word, "opportunistic")) return RequireTlsRule::opportunistic;
  return std::nullopt;
}

}  // namespace

Result<RequireTlsPolicies> RequireTlsPolicies::open(std::string_view setting, std::string_view mydomain,
                                                    const map::OpenOptions& options) {
  RequireTlsPolicies p;
  setting = trim(setting);
  p.built_in_ = setting.empty();
  p.mydomain_ = to_lower(mydomain);
  // A last word that is no table is the rule for the rest.
  const auto last = setting.find_last_of(" \t\r\n,");
  const auto word = last == std::string_view::npos ? setting : setting.substr(last + 1);
  if (const auto rule = rule_of(word)) {
    p.rest_ = *rule;
    setting = last == std::string_view::npos ? std::string_view() : trim(setting.substr(0, last));
    while (setting.ends_with(',')) setting = trim(setting.substr(0, setting.size() - 1));
  } else if (!word.empty() && word.find_first_of(":}") == word.npos) {
    return fail(resolve::ResolveError::bad_setting, "\"" + printable(word, 50) + "\" is neither a rule nor a table");
  }
  if (setting.empty()) return p;
  PEN_TRY_ASSIGN(p.tables_, map::MapList::open(setting, options));
  return p;
}

RequireTlsPolicies RequireTlsPolicies::opportunistic() {
  RequireTlsPolicies p;
  p.rest_ = RequireTlsRule::opportunistic;
  return p;
}

Result<RequireTlsRule> RequireTlsPolicies::find(const NextHop& hop) const {
  const std::string_view name = hop.host;
  if (built_in_) {
    const bool own =
        !mydomain_.empty() &&
        (name == mydomain_ || (name.ends_with(mydomain_) && name[name.size() - mydomain_.size() - 1] == '.'));
    return own || hop.numeric || name == "localhost" ? RequireTlsRule::opportunistic : rest_;
  }
  for (std::string_view part = name;;) {
    PEN_TRY_ASSIGN(const auto value, tables_.lookup(part));
    if (value) {
      if (const auto rule = rule_of(trim(*value))) return *rule;
      return fail(resolve::ResolveError::bad_setting, "\"" + printable(*value, 50) + "\" is no rule for REQUIRETLS");
    }
    const auto dot = hop.numeric ? part.npos : part.find('.', 1);
    if (dot == part.npos) break;
    part = part.substr(dot);
  }
  return rest_;
}

std::optional<std::string> require_tls(ipc::Destination& destination, const NextHop& hop, const HostFacts& facts,
                                       RequireTlsRule rule) {
  ipc::TlsPolicy& policy = destination.tls;
  if (rule == RequireTlsRule::opportunistic || !destination.unix_path.empty()) return std::nullopt;
  if (rule == RequireTlsRule::opportunistic_starttls) {
    if (policy.level < TlsLevel::encrypt) policy.level = TlsLevel::encrypt;
    return std::nullopt;
  }
  if (policy.level < TlsLevel::fingerprint) {
    // No policy vouches for the host; its name does, if nobody else can have put it there.
    if (hop.numeric) return "REQUIRETLS asks for a verified server, and " + hop.text + " has no name to verify";
    if (hop.mx && !(facts.by_mx && facts.mx_secure))
      return "REQUIRETLS asks for a verified server, but the MX records of " + hop.host +
             " are not secure in DNS and it has no policy (DANE, MTA-STS)";
    policy.level = TlsLevel::secure;
    policy.match = {destination.host};
    if (policy.servername.empty()) policy.servername = destination.host;
  }
  destination.requiretls = true;
  return std::nullopt;
}

void give_up_published(ipc::TlsPolicy& policy) {
  if (policy.level < TlsLevel::dane) return;
  policy.level = TlsLevel::may;
  policy.match.clear();
  policy.tlsa.clear();
}

}  // namespace pen::rewrite
