#include "trivial-rewrite/tls_policy.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/receive/resolve/resolve.h"
#include "lib/trust/mta_sts/policy.h"

namespace pen::rewrite {

using ipc::TlsLevel;

namespace {

constexpr std::array<std::string_view, 8> kLevels = {"none",   "may",    "encrypt", "fingerprint",
                                                     "verify", "secure", "dane",    "dane-only"};
constexpr std::size_t kMostPatterns = 100;  // of hosts in one policy, as in RFC 8461 policies that are in use
constexpr std::string_view kGrades[] = {"export", "low", "medium", "high", "null"};
// What a server of policies says for reports (RFC 8460 sections 4.4 and 4.3).
constexpr std::string_view kPolicyTypes[] = {"no-policy-found", "tlsa", "sts"};  // as in ipc::tls_report
constexpr std::string_view kFailures[] = {"starttls-not-supported", "certificate-host-mismatch",
                                          "certificate-expired",    "certificate-not-trusted",
                                          "validation-failure",     "tlsa-invalid",
                                          "dnssec-invalid",         "dane-required",
                                          "sts-policy-fetch-error", "sts-policy-invalid",
                                          "sts-webpki-invalid"};
constexpr std::size_t kMostStrings = 100;  // of a policy's text, as tlsrpt keeps
constexpr seconds kAnnounced{86400};       // without policy_ttl
constexpr seconds kLeastAnnounced{7200};   // a route may be known for as long as that
constexpr std::string_view kMayBeEmpty[] = {"protocols", "exclude", "policy_string", "mx_host_pattern"};

bool is_among(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::any_of(words, [&](std::string_view w) { return iequals(w, word); });
}

std::optional<TlsLevel> level_of(std::string_view word) {
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (iequals(kLevels[i], word)) return static_cast<TlsLevel>(i);
  return std::nullopt;
}

bool by_name(TlsLevel level) { return level == TlsLevel::verify || level == TlsLevel::secure; }

/// True: a name that can be sent as SNI, or a next hop with parents that make sense.
bool host_name(std::string_view text) {
  if (text.empty() || text.size() > 255 || text.front() == '.' || text.back() == '.') return false;
  bool letter = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && text[i - 1] == '.') return false;
    if (!ascii_alnum(c) && c != '.' && c != '-' && c != '_') return false;
    letter = letter || ascii_alpha(c) || c == '-';
  }
  return letter;
}

/// "AB:CD:…" from any notation; empty: no hexadecimal bytes.
std::string digest_form(std::string_view text) {
  std::string out;
  int digits = 0;
  for (const char c : text) {
    if (c == ':' && digits % 2 == 0) continue;
    const char up = c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c;
    if (!ascii_digit(up) && !(up >= 'A' && up <= 'F')) return {};
    if (digits > 0 && digits % 2 == 0) out += ':';
    out += up;
    ++digits;
  }
  return digits % 2 == 0 ? out : std::string();
}

std::vector<std::string> words(std::string_view text, std::string_view separators) {
  std::vector<std::string> out;
  for (const auto word : split(text, separators)) out.emplace_back(word);
  return out;
}

/// The words of an entry: name=value, or { name = value } with blanks in the value.
std::vector<std::string> entry_words(std::string_view text) {
  std::vector<std::string> out;
  while (!(text = trim(text)).empty()) {
    const auto end = text.front() == '{' ? text.find('}') : text.find_first_of(" \t\r\n,");
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!word.starts_with('{')) {
      if (!word.empty()) out.emplace_back(word);
      continue;
    }
    word.remove_prefix(1);
    const auto equals = word.find('=');
    out.push_back(equals == std::string_view::npos
                      ? std::string(trim(word))
                      : std::string(trim(word.substr(0, equals))) + "=" + std::string(trim(word.substr(equals + 1))));
  }
  return out;
}

}  // namespace

std::string_view level_name(TlsLevel level) {
  const auto i = static_cast<std::size_t>(level);
  return i < kLevels.size() ? kLevels[i] : "unknown";
}

/// The tables' and settings' answer for a next hop, before a host's name is inserted.
struct TlsPolicies::Entry {
  bool found = false;
  TlsLevel level = TlsLevel::none;
  std::optional<std::vector<std::string>> match;
  ipc::TlsPolicy policy;  // the attributes
  // What a server of policies says for reports, and the hosts' patterns of MTA-STS.
  std::string published, policy_ttl, policy_domain, policy_failure;
  std::vector<std::string> policy_strings;
  mta_sts::Policy sts;
  std::string given;  // an attribute that needs policy_type
  std::string rule, problem;

  /// Reads the text of a policy_maps entry: a level, then attributes.
  void read(std::string_view text);
  std::string attribute(std::string_view name, std::string_view value);
  /// For tlsrpt.
  std::vector<ipc::tls_report::Attempt> told(const NextHop& hop) const;
};

std::string TlsPolicies::Entry::attribute(std::string_view name, std::string_view value) {
  const std::string shown(name);
  if (value.empty() && !is_among(kMayBeEmpty, name)) return "attribute \"" + printable(shown, 50) + "\" has no value";
  const auto once = [&](std::string& field) -> std::string {
    if (!field.empty()) return "attribute \"" + shown + "\" is given twice";
    field = value;
    return {};
  };
  const auto not_here = [&] {
    return "attribute \"" + shown + "\" means nothing at level \"" + std::string(level_name(level)) + "\"";
  };
  const auto not_so = [&] { return "attribute \"" + shown + "\" cannot be \"" + printable(value, 50) + "\""; };
  if (iequals(name, "protocols")) return once(policy.protocols);
  if (iequals(name, "ciphers")) {
    return is_among(kGrades, value) ? once(policy.ciphers) : "no such cipher grade \"" + printable(value, 50) + "\"";
  }
  if (iequals(name, "exclude")) return once(policy.exclude);
  if (iequals(name, "servername")) {
    if (!host_name(value)) return "servername \"" + printable(value, 50) + "\" is no host name";
    return once(policy.servername);
  }
  if (iequals(name, "match")) {
    if (level <= TlsLevel::encrypt || level >= TlsLevel::dane) return not_here();
    if (!match) match.emplace();
    std::ranges::move(words(value, level == TlsLevel::fingerprint ? "|" : ":"), std::back_inserter(*match));
    return {};
  }
  if (iequals(name, "tafile")) {
    if (!by_name(level)) return not_here();
    policy.trust_anchors.emplace_back(value);
    return {};
  }
  // Connections are always shared if that is allowed; a raw public key is never asked for.
  if (iequals(name, "connection_reuse") || iequals(name, "enable_rpk")) {
    if (iequals(value, "yes") || iequals(value, "no")) return {};
    return "attribute \"" + shown + "\" is yes or no";
  }
  if (iequals(name, "policy_type")) return is_among(kPolicyTypes, value) ? once(published) : not_so();
  if (name.starts_with("policy_") || iequals(name, "mx_host_pattern")) given = shown;
  if (iequals(name, "mx_host_pattern")) {
    if (sts.mx.size() >= kMostPatterns) return "more than " + std::to_string(kMostPatterns) + " of mx_host_pattern";
    sts.mx.push_back(to_lower(value));
    return {};
  }
  // These are for reports, which are made of what is known here (tlsrpt).
  if (iequals(name, "policy_ttl")) return parse_unsigned(value) ? once(policy_ttl) : not_so();
  if (iequals(name, "policy_domain")) return host_name(value) ? once(policy_domain) : not_so();
  if (iequals(name, "policy_failure")) return is_among(kFailures, value) ? once(policy_failure) : not_so();
  if (iequals(name, "policy_string")) {
    if (policy_strings.size() < kMostStrings) policy_strings.emplace_back(value);
    return {};
  }
  return "no such attribute \"" + printable(shown, 50) + "\"";
}

void TlsPolicies::Entry::read(std::string_view text) {
  found = true;
  const auto tokens = entry_words(text);
  if (tokens.empty()) {
    problem = "the entry is empty";
    return;
  }
  const auto said = level_of(tokens.front());
  if (!said) {
    problem = "no such level \"" + printable(tokens.front(), 50) + "\"";
    return;
  }
  level = *said;
  // Attributes of a level without TLS have no effect, as in Postfix.
  if (level == TlsLevel::none) return;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const auto equals = tokens[i].find('=');
    const std::string_view token = tokens[i];
    problem = equals == std::string_view::npos ? "\"" + printable(token, 50) + "\" is not name=value"
                                               : attribute(token.substr(0, equals), token.substr(equals + 1));
    if (!problem.empty()) return;
  }
  if (published.empty() && !given.empty()) problem = "attribute \"" + given + "\" needs policy_type";
}

std::vector<ipc::tls_report::Attempt> TlsPolicies::Entry::told(const NextHop& hop) const {
  // Reports go to domains that mail is addressed to, not to hosts that an administrator named.
  if (published.empty() || !hop.mx || !problem.empty()) return {};
  const auto index = [](std::span<const std::string_view> words, std::string_view word) {
    const auto at = std::ranges::find_if(words, [&](std::string_view w) { return iequals(w, word); });
    return static_cast<std::uint8_t>(at - words.begin());
  };
  ipc::tls_report::Attempt policy_of;
  policy_of.domain = to_lower(hop.host);
  policy_of.policy = static_cast<ipc::tls_report::PolicyType>(index(kPolicyTypes, published));
  policy_of.policy_strings = policy_strings;
  policy_of.mx_patterns = sts.mx;
  policy_of.policy_domain = to_lower(policy_domain);
  std::vector<ipc::tls_report::Attempt> out{policy_of};
  const auto ttl = policy_ttl.empty() ? kAnnounced : seconds(parse_unsigned(policy_ttl).value_or(0));
  out.front().announced = static_cast<std::uint32_t>(std::clamp(ttl, kLeastAnnounced, mta_sts::kMaxAge).count());
  if (policy_failure.empty()) return out;
  out.push_back(std::move(policy_of));
  out.back().result = static_cast<ipc::tls_report::ResultType>(index(kFailures, policy_failure) + 1);
  out.back().reason = "policy_failure of " + rule;
  return out;
}

Result<TlsPolicies> TlsPolicies::open(const TlsOptions& options) {
  TlsPolicies p;
  p.options_ = options;
  if (!options.security_level.empty()) {
    const auto level = level_of(options.security_level);
    if (!level) {
      return fail(resolve::ResolveError::bad_setting, options.program + "_tls_security_level: no such level \"" +
                                                          printable(options.security_level, 50) + "\"");
    }
    p.level_ = *level;
    p.level_from_ = options.program + "_tls_security_level";
  } else if (options.enforce_tls) {
    p.level_ = options.enforce_peername ? TlsLevel::verify : TlsLevel::encrypt;
    p.level_from_ = options.program + "_enforce_tls";
  } else {
    p.level_ = options.use_tls ? TlsLevel::may : TlsLevel::none;
    p.level_from_ = options.program + (options.use_tls ? "_use_tls" : "_tls_security_level");
  }
  const auto insecure_mx = level_of(options.insecure_mx);
  if (!insecure_mx ||
      (*insecure_mx != TlsLevel::may && *insecure_mx != TlsLevel::encrypt && *insecure_mx != TlsLevel::dane)) {
    return fail(resolve::ResolveError::bad_setting, options.program + "_tls_dane_insecure_mx_policy: \"" +
                                                        printable(options.insecure_mx, 50) +
                                                        "\" is not may, encrypt or dane");
  }
  p.insecure_mx_ = *insecure_mx;
  PEN_TRY_ASSIGN(p.policy_maps_,
                 map::MapList::open(options.policy_maps, options.maps.of(options.program + "_tls_policy_maps")));
  // Postfix looks up the older table only if the newer one is not set.
  if (p.policy_maps_.empty()) {
    PEN_TRY_ASSIGN(p.per_site_,
                   map::MapList::open(options.per_site, options.maps.of(options.program + "_tls_per_site")));
  }
  return p;
}

bool TlsPolicies::same_for_all() const {
  return policy_maps_.empty() && per_site_.empty() && level_ == TlsLevel::none && !options_.wrapped;
}

std::vector<std::string> TlsPolicies::problems() const {
  std::vector<std::string> all;
  for (const auto* maps : {&policy_maps_, &per_site_})
    for (const Error& e : maps->problems()) all.push_back(map::advice(e));
  NextHop any;
  any.host = "any.invalid";
  const Decision usual = finish({}, any, "any.invalid");
  if (!usual.problem.empty()) all.push_back(usual.problem + ": mail is deferred");
  return all;
}

TlsPolicies::Entry TlsPolicies::look_up(const NextHop& hop) const {
  Entry entry;
  const std::string table = options_.program + "_tls_policy_maps";
  const std::string whole = hop.unix_path.empty() ? hop.text : hop.unix_path;
  // Only a plain name has parents: "[host]" and "host:port" mean one destination.
  const bool has_parents = host_name(idn::ascii_domain(whole).value_or(whole));
  std::string_view key = whole;
  for (bool first = true; !key.empty(); first = false) {
    const auto value = policy_maps_.lookup(key, first);
    if (!value) {
      entry.found = true;
      entry.rule = table;
      entry.problem = printable(value.error().message(), 300);
      return entry;
    }
    if (*value) {
      entry.rule = table + " (" + printable(key, 255) + ")";
      entry.read(**value);
      return entry;
    }
    if (!has_parents) break;
    const auto dot = key.find('.', 1);
    if (dot == std::string_view::npos) break;
    key = key.substr(dot);
  }
  return entry;
}

/// Both next hop and host count. NONE is stronger than MAY, and whatever demands encryption is stronger than both; a
/// MAY from here does not weaken what main.cf demands.
void TlsPolicies::apply_per_site(Entry& entry, const NextHop& hop, const std::string& host) const {
  const std::string table = options_.program + "_tls_per_site";
  std::optional<TlsLevel> site;
  const std::string& whole = hop.unix_path.empty() ? hop.text : hop.unix_path;
  for (const std::string& key : {whole, host}) {
    if (&key != &whole && iequals(whole, host)) break;
    const auto value = per_site_.lookup(key);
    if (!value) {
      entry.problem = printable(value.error().message(), 300);
      entry.rule = table;
      return;
    }
    if (!*value) continue;
    const std::string_view word = trim(**value);
    const auto at_least = [&](TlsLevel level) { site = std::max(site.value_or(level), level); };
    if (iequals(word, "NONE")) {
      if (!site || *site <= TlsLevel::may) site = TlsLevel::none;
    } else if (iequals(word, "MAY")) {
      if (!site) site = TlsLevel::may;
    } else if (iequals(word, "MUST_NOPEERMATCH")) {
      at_least(TlsLevel::encrypt);
    } else if (iequals(word, "MUST")) {
      at_least(TlsLevel::verify);
    } else {
      entry.problem = "no such word \"" + printable(word, 50) + "\"";
    }
    entry.rule = table + " (" + printable(key, 255) + ")";
    if (!entry.problem.empty()) return;
  }
  if (!site) return;
  entry.found = true;
  entry.level = *site;
  if (*site == TlsLevel::may && level_ > TlsLevel::may) entry.found = false;
}

Decision TlsPolicies::finish(const Entry& entry, const NextHop& hop, const std::string& host) const {
  Decision d;
  d.policy = entry.policy;
  d.policy.level = entry.found ? entry.level : level_;
  d.rule = entry.found ? entry.rule : level_from_;
  d.by_table = entry.found;
  if (!entry.problem.empty()) {
    d.problem = "client TLS configuration problem: " + entry.rule + ": " + entry.problem;
    return d;
  }
  // Nobody can eavesdrop on a local socket.
  if (!hop.unix_path.empty() && d.policy.level == TlsLevel::may) d.policy = {};
  const TlsLevel level = d.policy.level;
  if (options_.wrapped && level < TlsLevel::encrypt) {
    d.problem = "client TLS configuration problem: " + options_.program +
                "_tls_wrappermode = yes needs level encrypt or stronger, but " + d.rule + " is " +
                std::string(level_name(level));
    return d;
  }
  if (level == TlsLevel::none) {
    d.policy = {};
    return d;
  }
  const bool by_dane = level == TlsLevel::dane || level == TlsLevel::dane_only;
  if (by_dane && (!options_.dnssec || options_.wrapped || !hop.unix_path.empty())) {
    d.problem = "client TLS configuration problem: " + d.rule + ": level " + std::string(level_name(level)) +
                (!options_.dnssec   ? " needs " + options_.program + "_dns_support_level = dnssec"
                 : options_.wrapped ? " goes with STARTTLS, not with " + options_.program + "_tls_wrappermode"
                                    : " is for hosts in DNS");
    return d;
  }
  // As in Postfix: a policy that is enforced has names to match in its entry.
  const bool by_sts = options_.sts_patterns && entry.match && iequals(entry.published, "sts") && !entry.sts.mx.empty();
  if (by_sts && !entry.sts.names_host(host)) {
    d.problem = "host " + host + " is not one that the MTA-STS policy names (" + d.rule + ")";
    return d;
  }
  // Certificates and the TLS extension have names with A-labels.
  const std::string domain = hop.unix_path.empty() ? idn::ascii_domain(hop.host).value_or(hop.host) : host;
  const std::string said_name = d.policy.servername.empty() ? options_.servername : d.policy.servername;
  d.policy.servername = iequals(said_name, "hostname") ? host : iequals(said_name, "nexthop") ? domain : said_name;
  // An address cannot be sent as a name (RFC 6066 section 3).
  if (!host_name(d.policy.servername)) d.policy.servername.clear();
  if (level == TlsLevel::fingerprint) {
    const auto said = entry.match ? *entry.match : words(options_.fingerprint_match, " \t\r\n,|");
    for (const auto& digest : said) {
      d.policy.match.push_back(digest_form(digest));
      if (d.policy.match.back().empty()) d.problem = "\"" + printable(digest, 200) + "\" is no fingerprint";
    }
    if (said.empty()) d.problem = "level fingerprint, but there is no fingerprint to match";
    if (!d.problem.empty()) d.problem = "client TLS configuration problem: " + d.rule + ": " + d.problem;
  } else if (by_name(level)) {
    const auto said =
        by_sts        ? std::vector<std::string>{"hostname"}
        : entry.match ? *entry.match
                      : words(level == TlsLevel::verify ? options_.verify_match : options_.secure_match, " \t\r\n,:");
    for (const auto& name : said) {
      d.policy.match.push_back(iequals(name, "nexthop")       ? domain
                               : iequals(name, "dot-nexthop") ? "." + domain
                               : iequals(name, "hostname")    ? host
                                                              : idn::ascii_domain(name).value_or(to_lower(name)));
    }
    if (said.empty())
      d.problem = "client TLS configuration problem: " + d.rule + ": level " + std::string(level_name(level)) +
                  ", but there is no name to match";
  }
  return d;
}

std::vector<Decision> TlsPolicies::decide(const NextHop& hop, std::span<const std::string> hosts) const {
  std::vector<Decision> out;
  const Entry entry = policy_maps_.empty() ? Entry() : look_up(hop);
  for (const std::string& host : hosts) {
    if (per_site_.empty()) {
      out.push_back(finish(entry, hop, host));
      if (out.size() == 1) out.front().published = entry.told(hop);
    } else {
      Entry own;
      apply_per_site(own, hop, host);
      out.push_back(finish(own, hop, host));
    }
  }
  return out;
}

}  // namespace pen::rewrite
