#include "lib/meaning/smtpd/policy.h"

#include <algorithm>
#include <set>

#include "lib/base/text.h"
#include "lib/config/restrictions.h"
#include "lib/meaning/smtpd/reply_text.h"
#include "lib/receive/intake/from_settings.h"

namespace pen::smtpd {
namespace {

unsigned keyword_bit(std::string_view word) {
  struct Row {
    std::string_view word;
    unsigned bit;
  };
  static constexpr Row kRows[] = {{"pipelining", keyword::kPipelining},
                                  {"size", keyword::kSize},
                                  {"vrfy", keyword::kVrfy},
                                  {"enhancedstatuscodes", keyword::kEnhancedStatusCodes},
                                  {"8bitmime", keyword::kEightBitMime},
                                  {"dsn", keyword::kDsn},
                                  {"smtputf8", keyword::kSmtpUtf8},
                                  {"chunking", keyword::kChunking},
                                  {"auth", keyword::kAuth},
                                  {"starttls", keyword::kStartTls},
                                  {"requiretls", keyword::kRequireTls},
                                  {"xclient", keyword::kXclient},
                                  {"xforward", keyword::kXforward},
                                  {"etrn", keyword::kEtrn},
                                  {"verp", keyword::kVerp},
                                  {"limits", keyword::kLimits},
                                  {"mt-priority", keyword::kMtPriority},
                                  {"futurerelease", keyword::kFutureRelease},
                                  {"silent-discard", keyword::kSilent}};
  for (const auto& row : kRows)
    if (iequals(row.word, word)) return row.bit;
  return 0;
}

void read_restrictions(Policy& p, const config::Config& config) {
  const config::Settings& s = p.settings;
  std::vector<RestrictionReader::Class> classes;
  for (const auto& name : s.smtpd_restriction_classes) {
    classes.push_back({name, config.list(name).value_or(std::vector<std::string>())});
    p.class_names.push_back(name);
  }
  RestrictionReader reader(p.open, classes, s);
  p.classes = reader.read_classes();
  p.client = reader.read(Stage::client, s.smtpd_client_restrictions);
  p.helo = reader.read(Stage::helo, s.smtpd_helo_restrictions);
  p.sender = reader.read(Stage::sender, s.smtpd_sender_restrictions);
  p.relay = reader.read(Stage::relay, s.smtpd_relay_restrictions);
  p.recipient = reader.read(Stage::recipient, s.smtpd_recipient_restrictions);
  p.data = reader.read(Stage::data, s.smtpd_data_restrictions);
  p.end_of_data = reader.read(Stage::end_of_data, s.smtpd_end_of_data_restrictions);
  p.etrn = reader.read(Stage::etrn, s.smtpd_etrn_restrictions);
  p.warnings = reader.warnings();
  std::vector<const RestrictionList*> lists = {&p.client,    &p.helo, &p.sender,     &p.relay,
                                               &p.recipient, &p.data, &p.end_of_data};
  for (const auto& list : p.classes) lists.push_back(&list);
  p.named_lists = NamedLists::of(lists);
}

Result<map::MapList> open_maps(const Policy& p, const std::vector<std::string>& specs, const char* name) {
  auto maps = map::MapList::open(join(specs), p.open.of(name));
  if (!maps) return fail(std::move(maps).error().within(name));
  return maps;
}

/// Reads what replies of DNS lists, and footers, are made from.
Result<void> read_reply_texts(Policy& p) {
  const config::Settings& s = p.settings;
  PEN_TRY_ASSIGN(p.rbl_reply_maps, open_maps(p, s.rbl_reply_maps, "rbl_reply_maps"));
  PEN_TRY_ASSIGN(p.reject_filter, open_maps(p, s.smtpd_reject_filter_maps, "smtpd_reject_filter_maps"));
  PEN_TRY_ASSIGN(p.reject_footer_maps, open_maps(p, s.smtpd_reject_footer_maps, "smtpd_reject_footer_maps"));
  p.expansion_filter = unescape(s.smtpd_expansion_filter);
  if (const auto why = template_problem(s.default_rbl_reply, ReplyNames::of_dns_lists); !why.empty())
    return fail(PolicyError::bad_template, "default_rbl_reply: " + why);
  if (const auto why = template_problem(s.smtpd_reject_footer, ReplyNames::of_sessions); !why.empty())
    p.warnings.push_back("smtpd_reject_footer: " + why);
  return {};
}

using Kind = map::MatchList::Kind;

/// with_subdomains: parent_domain_matches_subdomains, the names of lists in which a domain also matches its
/// subdomains.
Result<map::MatchList> open_list(Policy& p, std::string_view with_subdomains, Kind kind,
                                 const std::vector<std::string>& items, const char* name) {
  auto list = map::MatchList::open(
      kind, join(items),
      {.parent_domains = list_contains(with_subdomains, name), .open = p.open.of(name), .keep_faulty = true});
  if (!list) return fail(std::move(list).error().within(name));
  for (const std::string& fault : list->faults())
    p.warnings.push_back(std::string(name) + ": " + fault + ": clients that it is compared with get 451");
  return list;
}

Result<void> open_match_lists(Policy& p, std::string_view with_subdomains) {
  const config::Settings& s = p.settings;
  struct Row {
    map::MatchList& into;
    Kind kind;
    const std::vector<std::string>& items;
    const char* name;
  };
  const Row rows[] = {
      {p.mynetworks, Kind::network, s.mynetworks, "mynetworks"},
      {p.bare_newline_exclusions, Kind::host, s.smtpd_forbid_bare_newline_exclusions,
       "smtpd_forbid_bare_newline_exclusions"},
      {p.event_limit_exceptions, Kind::host, s.smtpd_client_event_limit_exceptions,
       "smtpd_client_event_limit_exceptions"},
      {p.xclient_hosts, Kind::host, s.smtpd_authorized_xclient_hosts, "smtpd_authorized_xclient_hosts"},
      {p.xforward_hosts, Kind::host, s.smtpd_authorized_xforward_hosts, "smtpd_authorized_xforward_hosts"},
      {p.verp_clients, Kind::host, s.smtpd_authorized_verp_clients, "smtpd_authorized_verp_clients"},
      {p.fast_flush, Kind::domain, s.fast_flush_domains, "fast_flush_domains"},
      {p.mx_backup_networks, Kind::host, s.permit_mx_backup_networks, "permit_mx_backup_networks"},
      {p.forbidden_commands, Kind::string, s.smtpd_forbidden_commands, "smtpd_forbidden_commands"},
      {p.noop_commands, Kind::string, s.smtpd_noop_commands, "smtpd_noop_commands"},
      {p.traced, Kind::host, s.debug_peer_list, "debug_peer_list"},
      {p.returned_recipients, Kind::domain, s.returned_mail_recipients, "returned_mail_recipients"},
      {p.complaint_clients, Kind::host, s.suppression_complaint_clients, "suppression_complaint_clients"},
      {p.logged_permits, Kind::string, s.smtpd_log_access_permit_actions, "smtpd_log_access_permit_actions"},
  };
  for (const Row& row : rows) {
    PEN_TRY_ASSIGN(row.into, open_list(p, with_subdomains, row.kind, row.items, row.name));
  }
  return {};
}

/// Reads local_header_rewrite_clients.
Result<void> read_local_clients(Policy& p, std::string_view with_subdomains) {
  p.local_rewrite_interfaces = false;
  std::vector<std::string> tables;
  for (const auto& item : p.settings.local_header_rewrite_clients) {
    if (iequals(item, "permit_inet_interfaces"))
      p.local_rewrite_interfaces = true;
    else if (iequals(item, "permit_mynetworks"))
      p.local_rewrite_mynetworks = true;
    else if (iequals(item, "permit_sasl_authenticated"))
      p.local_rewrite_logins = true;
    else if (iequals(item, "permit_tls_clientcerts"))
      p.local_rewrite_clientcerts = true;
    else if (iequals(item, "permit_tls_all_clientcerts"))
      p.local_rewrite_all_clientcerts = true;
    else if (item.contains(':'))
      tables.push_back(item);
    else if (!iequals(item, "check_address_map"))  // the next item, a table, is enough
      p.warnings.push_back("local_header_rewrite_clients: " + item + " has no effect");
  }
  PEN_TRY_ASSIGN(p.local_rewrite_addresses,
                 open_list(p, with_subdomains, Kind::network, tables, "local_header_rewrite_clients"));
  return {};
}

/// Sets the EHLO keywords that are not offered. Needs Policy::proxy.
void discard_keywords(Policy& p) {
  const config::Settings& s = p.settings;
  if (!s.smtputf8_enable) p.never_offered |= keyword::kSmtpUtf8;
  // The connection to a filter is not encrypted.
  if (!s.requiretls_enable || p.proxy) p.never_offered |= keyword::kRequireTls;
  // The smtpd behind the filter would not hear of them.
  if (p.proxy) p.never_offered |= keyword::kVerp | keyword::kMtPriority | keyword::kFutureRelease;
  p.discarded = p.discard(s.smtpd_discard_ehlo_keywords);
}

/// What a connection and its commands go through before anything is judged.
Result<void> read_connection(Policy& p) {
  const config::Settings& s = p.settings;
  const auto speaks = [&](std::string_view family) {
    return std::ranges::any_of(s.inet_protocols, [&](const auto& word) { return word == "all" || word == family; });
  };
  p.ipv4 = speaks("ipv4");
  p.ipv6 = speaks("ipv6");
  p.upstream_proxy = s.smtpd_upstream_proxy_protocol == config::UpstreamProxy::haproxy;
  PEN_TRY_ASSIGN(p.quotas, open_maps(p, s.smtpd_quota_maps, "smtpd_quota_maps"));
  PEN_TRY_ASSIGN(p.command_filter, open_maps(p, {s.smtpd_command_filter}, "smtpd_command_filter"));
  PEN_TRY_ASSIGN(p.discarded_by_client,
                 open_maps(p, s.smtpd_discard_ehlo_keyword_address_maps, "smtpd_discard_ehlo_keyword_address_maps"));
  return {};
}

bool judging_asks_policy(const Policy& p) {
  const auto asks = [&](const RestrictionList& list) { return asks_policy(list, p.classes); };
  if (asks(p.relay) || asks(p.recipient)) return true;
  return p.settings.smtpd_delay_reject && (asks(p.client) || asks(p.helo) || asks(p.sender));
}

/// Only the lists for content count messages: elsewhere check_sender_quota refuses senders that have used them up.
void look_for_uncounted_quotas(Policy& p) {
  const auto has = [&](const RestrictionList& list) {
    return std::ranges::any_of(list, [](const Restriction& r) { return r.check == Check::check_sender_quota; });
  };
  const bool looks = has(p.client) || has(p.helo) || has(p.sender) || has(p.relay) || has(p.recipient);
  const bool in_class = std::ranges::any_of(p.classes, has);
  if (looks && !in_class && !has(p.data) && !has(p.end_of_data))
    p.warnings.push_back(
        "check_sender_quota counts nothing: it must stand in smtpd_data_restrictions or "
        "smtpd_end_of_data_restrictions too");
}

/// Restrictions that would answer 451 because a setting is missing, or because they stand in the wrong list.
void look_for_idle_authentication(Policy& p) {
  const auto warn = [&](const RestrictionList& list, bool after_content) {
    for (const Restriction& r : list) {
      const bool spf = r.check == Check::reject_spf_fail || r.check == Check::reject_spf_softfail ||
                       r.check == Check::reject_spf_permerror || r.check == Check::defer_spf_temperror;
      if (spf && !p.authentication.spf) p.warnings.push_back(r.name + " needs spf_verify = yes");
      if (r.check != Check::reject_dmarc) continue;
      if (!p.authentication.dmarc) p.warnings.push_back(r.name + " needs dmarc_verify = yes");
      if (!after_content) p.warnings.push_back(r.name + " can only stand in smtpd_end_of_data_restrictions");
    }
  };
  for (const auto* list : {&p.client, &p.helo, &p.sender, &p.relay, &p.recipient, &p.data}) warn(*list, false);
  warn(p.end_of_data, true);
  for (const auto& list : p.classes) warn(list, true);  // known only when they are used
  if (!p.settings.arc_seal_key.empty() && !p.authentication.dkim)
    p.warnings.emplace_back("arc_seal_key needs dkim_verify = yes or dmarc_verify = yes: nothing is sealed");
  if (p.authentication.any() && !p.settings.smtpd_proxy_filter.empty())
    p.warnings.emplace_back(
        "with smtpd_proxy_filter, the smtpd before the filter checks SPF for its restrictions only, adds no "
        "results, and seals nothing");
}

/// Restrictions about the owner of a sender where nobody can log in.
void look_for_idle_owners(Policy& p) {
  if (p.settings.smtpd_sasl_auth_enable || p.auth.sender_logins.empty()) return;
  std::set<std::string> idle;
  const auto look = [&](const RestrictionList& list) {
    for (const Restriction& r : list)
      if (r.check == Check::reject_sender_login_mismatch ||
          r.check == Check::reject_unauthenticated_sender_login_mismatch ||
          r.check == Check::reject_known_sender_login_mismatch)
        idle.insert(r.name);
  };
  for (const auto* list : {&p.client, &p.helo, &p.sender, &p.relay, &p.recipient, &p.data, &p.end_of_data}) look(*list);
  for (const auto& list : p.classes) look(list);
  for (const std::string& name : idle)
    p.warnings.push_back(name +
                         " is passed over where a client has no login, as in Postfix: smtpd_sasl_auth_enable is no");
}

/// Whether a recipient of the null sender is judged by how many were accepted before it.
bool counts_recipients(const Policy& p) {
  const auto counts = [](const RestrictionList& list) {
    return std::ranges::find(list, Check::reject_multi_recipient_bounce, &Restriction::check) != list.end();
  };
  return counts(p.client) || counts(p.helo) || counts(p.sender) || counts(p.relay) || counts(p.recipient) ||
         std::ranges::any_of(p.classes, counts);
}

bool judging_may_wait(const Policy& p) {
  const auto waits = [&](const RestrictionList& list) { return may_wait(list, p.classes); };
  if (p.resolve->blocking() || p.auth.sender_logins.blocking() || p.relay_clientcerts.blocking() || waits(p.relay) ||
      waits(p.recipient))
    return true;
  return p.settings.smtpd_delay_reject && (waits(p.client) || waits(p.helo) || waits(p.sender));
}

std::string first_error(const config::Config& config) {
  for (const config::Problem& problem : config.problems())
    if (problem.severity == config::Severity::error) return problem.message();
  return {};
}

}  // namespace

std::string_view describe(PolicyError e) {
  switch (e) {
    case PolicyError::open_relay:
      return "in parameter smtpd_relay_restrictions or smtpd_recipient_restrictions, specify at least one working "
             "instance of: reject_unauth_destination, defer_unauth_destination, reject, defer, defer_if_permit";
    case PolicyError::bad_list:
      return "bad list";
    case PolicyError::bad_value:
      return "bad value";
    case PolicyError::bad_template:
      return "bad text for a reply";
  }
  return "unknown";
}

DiscardedKeywords Policy::discard(const std::vector<std::string>& words) const {
  DiscardedKeywords out{.bits = never_offered, .words = {}};
  for (const auto& word : words) out.bits |= keyword_bit(word);
  if ((out.bits & keyword::kSilent) == 0) out.words = join(words, ", ");
  return out;
}

Result<std::shared_ptr<const Policy>> Policy::open_policy(const config::Config& config,
                                                          std::shared_ptr<const resolve::Resolve> resolve) {
  PEN_TRY_ASSIGN(const auto policy, open_one(config, resolve));
  const config::Config strained = config.with({{.name = "stress", .value = "yes"}});
  if (const auto error = first_error(strained); !error.empty() && first_error(config).empty())
    return fail(PolicyError::bad_value, "with stress = yes: " + error);
  auto under_stress = open_one(strained, std::move(resolve));
  if (!under_stress) return fail(std::move(under_stress).error().within("with stress = yes"));
  policy->under_stress = *std::move(under_stress);
  const auto given = config.where("stress");
  policy->stress_given = given && given->file.empty();
  return policy;
}

Result<std::shared_ptr<Policy>> Policy::open_one(const config::Config& config,
                                                 std::shared_ptr<const resolve::Resolve> resolve) {
  auto policy = std::make_shared<Policy>();
  Policy& p = *policy;
  p.settings = config.settings();
  p.resolve = std::move(resolve);
  const config::Settings& s = p.settings;
  p.open.default_type = config.text("default_database_type").value_or("hash");
  const std::string with_subdomains = join(s.parent_domain_matches_subdomains);
  p.parent_domains = list_contains(with_subdomains, "smtpd_access_maps");

  read_restrictions(p, config);
  p.stress = config.text("stress").value_or("");
  if (!config::refuses_relaying(config, s.smtpd_relay_restrictions) &&
      !config::refuses_relaying(config, s.smtpd_recipient_restrictions))
    return fail(PolicyError::open_relay);
  PEN_TRY(open_match_lists(p, with_subdomains));
  PEN_TRY_ASSIGN(p.auth, AuthPolicy::open(s, p.open));
  PEN_TRY_ASSIGN(p.authentication, AuthenticationPolicy::read(s, {.parent_domains = false, .open = p.open}));
  look_for_idle_authentication(p);
  look_for_idle_owners(p);
  if (auto why = AuthPolicy::unavailable(config); !why.empty()) p.warnings.push_back(std::move(why));
  PEN_TRY(read_local_clients(p, with_subdomains));
  PEN_TRY_ASSIGN(p.relay_clientcerts, open_maps(p, s.relay_clientcerts, "relay_clientcerts"));
  PEN_TRY(read_reply_texts(p));
  p.families = families_of(s);
  PEN_TRY(read_connection(p));
  look_for_uncounted_quotas(p);

  p.tls = tls_mode(config);
  PEN_TRY_ASSIGN(p.tls_loglevels, open_maps(p, s.smtpd_tls_loglevel_maps, "smtpd_tls_loglevel_maps"));
  p.tls_loglevel_parents = list_contains(with_subdomains, "smtpd_tls_loglevel_maps");
  if (!p.tls.warning.empty()) p.warnings.push_back(p.tls.warning);
  if (s.smtpd_tls_req_ccert && p.tls.level != TlsLevel::encrypt)
    p.warnings.push_back("smtpd_tls_req_ccert = yes: needs smtpd_tls_security_level = encrypt; clients are only asked");
  PEN_TRY_ASSIGN(p.proxy, ProxySettings::read(s, p.warnings));
  PEN_TRY_ASSIGN(p.milters, milter::Settings::read(s, p.open, milter::Settings::Clients::smtp));
  if (p.proxy && p.milters->smtpd_filters())
    p.warnings.push_back("smtpd_milters: with smtpd_proxy_filter, filters see the envelope and not the content");
  PEN_TRY_ASSIGN(p.tenants, tenant::Identity::open(s));
  PEN_TRY_ASSIGN(p.priorities, tenant::Priorities::open(s));
  PEN_TRY_ASSIGN(p.unsubscribe, tenant::UnsubscribeCheck::open(s));
  for (const auto& problem : p.tenants ? p.tenants->problems() : std::vector<Error>())
    p.warnings.push_back(map::advice(problem));
  for (const auto& problem : p.priorities ? p.priorities->problems() : std::vector<Error>())
    p.warnings.push_back(map::advice(problem));
  for (const auto& problem : p.unsubscribe ? p.unsubscribe->problems() : std::vector<Error>())
    p.warnings.push_back(map::advice(problem));
  discard_keywords(p);
  if (auto told = mail::parse_error_classes(s.notify_classes))
    p.told = *told;
  else
    p.warnings.push_back(told.error().context() + "; the postmaster gets no session transcripts");
  p.unknown_recipient_checks = intake::receive_steps(s.receive_override_options).unknown_recipient_checks;
  p.rcpt_asks_policy = judging_asks_policy(p);
  p.rcpt_may_wait = !p.rcpt_asks_policy && judging_may_wait(p);
  p.counts_recipients_of_notices = counts_recipients(p);
  return policy;
}

}  // namespace pen::smtpd
