#include <algorithm>
#include <array>
#include <set>

#include "lib/base/text.h"
#include "lib/config/compatibility.h"
#include "lib/config/config.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/config/expand.h"
#include "lib/config/findings.h"
#include "lib/config/nearest.h"
#include "lib/config/restriction_faults.h"
#include "lib/config/restrictions.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

// Table types whose source may be settings in main.cf that begin with the table's name.
constexpr std::array<std::string_view, 6> kSourceTypes = {"ldap", "mysql", "pgsql", "sqlite", "memcache", "mongodb"};

// Values of settings without effect that ask for what is the case anyway: nothing to report.
constexpr std::pair<std::string_view, std::string_view> kAsItIs[] = {
    {"biff", "no"},
    {"daemon_table_open_error_is_fatal", "no"},
    {"destination_concurrency_feedback_debug", "no"},
    {"dont_remove", "0"},
    {"enable_long_queue_ids", "yes"},
    {"fault_injection_code", "0"},
    {"helpful_warnings", "yes"},
    {"in_flow_delay", "0"},
    {"in_flow_delay", "0s"},
    {"lmtp_pix_workarounds", ""},
    {"lmtp_quote_rfc821_envelope", "yes"},
    {"lmtp_sasl_auth_cache_name", ""},
    {"lmtp_skip_quit_response", "yes"},
    {"lmtp_tls_block_early_mail_reply", "no"},
    {"lmtp_tls_connection_reuse", "yes"},
    {"lmtp_tls_enable_rpk", "no"},
    {"smtp_pix_workarounds", ""},
    {"smtp_quote_rfc821_envelope", "yes"},
    {"smtp_sasl_auth_cache_name", ""},
    {"smtp_skip_4xx_greeting", "yes"},
    {"smtp_skip_quit_response", "yes"},
    {"smtp_tls_block_early_mail_reply", "no"},
    {"smtp_tls_connection_reuse", "yes"},
    {"smtp_tls_enable_rpk", "no"},
    {"smtpd_delay_open_until_valid_rcpt", "yes"},
    {"smtpd_tls_always_issue_session_ids", "yes"},
    {"smtpd_tls_enable_rpk", "no"},
    {"sun_mailtool_compatibility", "no"},
    {"tls_fast_shutdown_enable", "yes"},
    {"tls_random_source", "dev:/dev/urandom"},
    {"tls_session_ticket_cipher", "aes-256-cbc"},
};

/// Settings without effect that would have none in Postfix either, whatever their value, where this is so in main.cf
/// and in every service that sets something of its own: nothing to report.
struct Idle {
  std::string_view name;
  bool (*idle)(const Settings&);
};
bool sends_no_login(const Settings& s) { return !s.smtp.sasl_auth_enable; }
bool sends_no_login_by_lmtp(const Settings& s) { return !s.lmtp.sasl_auth_enable; }
constexpr Idle kIdle[] = {
    {"debug_peer_level", [](const Settings& s) { return s.debug_peer_list.empty(); }},
    {"lmtp_sasl_path", sends_no_login_by_lmtp},
    {"lmtp_sasl_type", sends_no_login_by_lmtp},
    {"smtp_sasl_path", sends_no_login},
    {"smtp_sasl_type", sends_no_login},
    // Postfix 3.6 and later read these two, and use tls_eecdh_auto_curves.
    {"tls_eecdh_strong_curve", [](const Settings&) { return true; }},
    {"tls_eecdh_ultra_curve", [](const Settings&) { return true; }},
};

/// Settings that are only about clients that log in.
bool of_logins(std::string_view name) {
  return name.starts_with("smtpd_sasl_") || name == "broken_sasl_auth_clients" || name.starts_with("cyrus_sasl_");
}

/// Joins start and the text of a row into one sentence part: no capital in the middle, no full stop.
std::string joined(std::string_view start, std::string_view text) {
  std::string sentence(text);
  while (sentence.ends_with('.')) sentence.pop_back();
  const std::string_view word = std::string_view(sentence).substr(0, sentence.find(' '));
  const bool is_name = std::ranges::any_of(word.substr(1), [](char c) { return c >= 'A' && c <= 'Z'; }) ||
                       word == "Penstock" || word == "Dovecot" || word == "Postfix";
  if (!is_name) sentence[0] = ascii_lower(sentence[0]);
  return std::string(start) + sentence;
}

/// Reports what the names in a configuration mean for mail.
class Reporter {
 public:
  explicit Reporter(const Config& config) : config_(config) {
    for (const std::string& name : config.names_set()) {
      const std::string value = config.written(name).value_or("");
      note_uses(value);
    }
    for (const Service& service : config.master()) {
      for (const Assignment& a : service.overrides) note_uses(a.value);
      for (const std::string& argument : service.arguments) note_uses(argument);
    }
    for (const Row& row : rows()) known_.push_back(row.name);
    for (const auto& c : config.settings().smtpd_restriction_classes) classes_.insert(c);
    bool any = false;
    for (const Service& service : config.master()) {
      if (service.command != "smtpd" || service.type == ServiceType::pass) continue;
      const Config own = service.overrides.empty() ? config : config.with(service);
      std::string why = no_login(own);
      any = any || (own.settings().smtpd_sasl_auth_enable && why.empty());
      if (!why.empty()) without_login_.emplace_back(&service, std::move(why));
    }
    no_logins_ = !any && !without_login_.empty();
  }

  void name_set(const std::string& name, const std::string& value, const Place& place) {
    Problem problem{Severity::note, place.file, place.line, name, ""};
    if (no_logins_ && of_logins(name) && !trim(value).empty()) {
      without_effect.emplace(name);
      problem.text = "without effect: AUTH is not offered";
    } else if (const Row* row = find_row(name)) {
      if (!judge(*row, value, problem)) return undefined_names(*row, value, place);
    } else if (const auto split = split_transport_name(name)) {
      if (!judge_transport(*split, value, problem)) return;
    } else if (used_.contains(name) || classes_.contains(name)) {
      return;
    } else if (is_table_source(name)) {
      problem.text = "taken as a setting of the table whose name it begins with";
    } else {
      problem.severity = Severity::warning;
      problem.text = "no setting has this name, and no other setting refers to it";
      problem.text += meant(name, known_, name);
    }
    found.push_back(std::move(problem));
  }

  /// Says where main.cf or a service wants logins that smtpd cannot check.
  void logins() {
    std::set<std::string> told;
    for (const auto& [service, why] : without_login_) {
      const Assignment* own = nullptr;
      for (const Assignment& a : service->overrides)
        if (a.name == "smtpd_sasl_auth_enable" || a.name == "smtpd_sasl_type") own = &a;
      Place place = own ? Place{config_.master_file(), service->line} : Place{config_.main_file(), 0};
      std::string name = own ? own->name : "smtpd_sasl_auth_enable";
      for (const char* setting : {"smtpd_sasl_auth_enable", "smtpd_sasl_type"}) {
        if (own || !config_.where(setting)) continue;
        name = setting;
        place = *config_.where(setting);
      }
      if (told.insert(place.file + ":" + std::to_string(place.line)).second)
        costs_mail({Severity::warning, place.file, place.line, name, why});
    }
  }

  void service(const Service& s) {
    const Place place{config_.master_file(), s.line};
    if (const ProgramNote* note = note_on_program(s.command)) {
      found.push_back({note->work_is_done ? Severity::note : Severity::warning, place.file, place.line, s.label(),
                       "the program " + s.command + " is not run: " + std::string(note->text)});
    } else if (!is_own_program(s.command)) {
      found.push_back({Severity::warning, place.file, place.line, s.label(),
                       "there is no program " + printable(s.command, 60) + "; the service is not run"});
    }
    for (const Assignment& a : s.overrides) override_set(s, a, place);
    if (takes_mail_in(s)) cleanup_of(s, place);
    if (s.overrides.empty()) return;
    const Config own = config_.with(s);
    for (Problem p : own.problems()) {
      // What main.cf has wrong itself is said once, of main.cf.
      const bool told = std::ranges::any_of(
          config_.problems(), [&](const Problem& of_main) { return of_main.name == p.name && of_main.text == p.text; });
      if (!p.file.empty() || told) continue;
      p.file = place.file;
      p.line = place.line;
      found.push_back(std::move(p));
    }
    for (const Assignment& a : s.overrides)
      if (const Row* row = find_row(a.name); row && s.command == "smtpd" && row->names == Names::restrictions)
        restrictions(own, a.name, place);
  }

  void transports() {
    const Settings& s = config_.settings();
    const auto need = [this](const std::string& name, const std::string& value, bool used, std::string_view mail) {
      const std::string transport = value.substr(0, value.find(':'));
      if (!used || transport.empty() || find_transport(transport)) return;
      const auto place = config_.where(name).value_or(Place{config_.main_file(), 0});
      costs_mail({Severity::warning, place.file, place.line, name,
                  "master.cf has no service " + transport + ": mail " + std::string(mail) + " will wait"});
    };
    need("default_transport", s.default_transport, true, "for other domains");
    need("relay_transport", s.relay_transport, !s.relay_domains.empty(), "for relay_domains");
    need("local_transport", s.local_transport, !s.mydestination.empty(), "for mydestination");
    need("virtual_transport", s.virtual_transport, !s.virtual_mailbox_domains.empty(), "for virtual_mailbox_domains");
  }

  /// Of several services that keep answers in the same place one has the file, and which one a reload decides.
  void kept_answers() {
    std::set<std::string> kept;
    for (const Service& s : config_.master()) {
      if (s.command != "penapi" || s.type == ServiceType::pass) continue;
      const Config own = config_.with(s);
      const std::string& map = own.settings().penapi_submission_map;
      if (own.settings().penapi_submission_service.empty() || map.empty() || kept.insert(map).second) continue;
      costs_mail(
          {Severity::warning, config_.master_file(), s.line, s.label(),
           "another service of penapi has the same penapi_submission_map, and one process has it at a time: the "
           "other one puts requests with an Idempotency-Key off. Give all but one \"-o penapi_submission_map=\": "
           "they refuse such requests"});
    }
  }

  /// Says why penapi cannot hand mail on (docs/http-submission.md).
  void handing_in() {
    const std::string& name = config_.settings().penapi_submission_service;
    if (name.empty()) return;
    const auto at = std::ranges::find_if(config_.master(), [&](const Service& s) {
      return s.type == ServiceType::unix_stream && s.is_private && s.name == name && s.command == "smtpd";
    });
    std::string why;
    if (at == config_.master().end()) {
      why = "master.cf has no private service " + printable(name, 60) + " of type unix with the program smtpd";
    } else {
      const Config own = config_.with(*at);
      if (!asks_tokens(own.settings()))
        why = "service " + printable(name, 60) + " has not smtpd_sasl_auth_enable = yes and smtpd_sasl_type = token";
      else if (own.settings().smtpd_upstream_proxy_protocol != UpstreamProxy::haproxy)
        why = "service " + printable(name, 60) + " has not smtpd_upstream_proxy_protocol = haproxy";
    }
    if (why.empty()) return;
    constexpr const char* kSetting = "penapi_submission_service";
    const auto place = config_.where(kSetting).value_or(Place{config_.main_file(), 0});
    costs_mail(
        {Severity::warning, place.file, place.line, kSetting, why + ": mail that is handed in by HTTP is put off"});
  }

  void relaying() {
    const Settings& s = config_.settings();
    if (refuses_relaying(config_, s.smtpd_relay_restrictions) ||
        refuses_relaying(config_, s.smtpd_recipient_restrictions))
      return;
    const auto place = config_.where("smtpd_relay_restrictions").value_or(Place{config_.main_file(), 0});
    found.push_back({Severity::error, place.file, place.line, "smtpd_relay_restrictions",
                     "neither this nor smtpd_recipient_restrictions holds reject_unauth_destination or another "
                     "refusal that acts, before any permit: anybody could relay; smtpd will not take mail"});
  }

  /// Reports items in smtpd's restriction lists that cannot act.
  void restrictions() {
    for (const Row& row : rows())
      if (row.names == Names::restrictions) restrictions(std::string(row.name));
    for (const std::string& name : config_.settings().smtpd_restriction_classes) restrictions(name);
  }
  void restrictions(const std::string& list) {
    if (const auto place = config_.where(list)) restrictions(config_, list, *place);
  }
  void restrictions(const Config& own, const std::string& list, const Place& place) {
    const auto items = own.list(list);
    if (!items) return;
    const auto say = [&](std::string text) {
      costs_mail({Severity::warning, place.file, place.line, list, std::move(text)});
    };
    for (std::size_t i = 0; i < items->size(); ++i) {
      const std::string& item = (*items)[i];
      const RestrictionName* known = find_restriction(item);
      if (known == nullptr) {
        const bool table = item.find(':') != std::string::npos;
        if (!table && !classes_.contains(item)) say(unknown_restriction(item) + meant(item, all_restrictions(), list));
        continue;
      }
      if (known->check == Check::unsupported) say(cannot_act(*known));
      if (iequals(item, "check_relay_domains"))
        found.push_back({Severity::note, place.file, place.line, list,
                         item + " is an old name: taken as " + std::string(known->name)});
      const bool probes =
          known->check == Check::reject_unverified_sender || known->check == Check::reject_unverified_recipient;
      const std::string& service = own.settings().address_verify_service_name;
      if (probes && config_.find_service(service, ServiceType::unix_stream) == nullptr)
        say(item + " needs the service " + printable(service, 60) +
            ", which is not in master.cf: mail that reaches it gets 450; add the line \"" + printable(service, 60) +
            " unix - - n - 1 verify\"");
      if (known->takes_argument && ++i == items->size()) say(lacks_argument(item));
    }
  }

  void level() {
    std::string differ;
    for (const OldDefault& old : old_defaults(config_))
      differ += (differ.empty() ? "" : ", ") + old.name + " " + (old.there.empty() ? "empty" : old.there) + " (here " +
                (old.here.empty() ? "empty" : old.here) + ")";
    if (differ.empty()) return;
    found.push_back({Severity::note, config_.main_file(), 0, "compatibility_level",
                     "not set: the defaults of " + config_.settings().compatibility_level +
                         " apply. Postfix takes those of 0, which are others for: " + differ});
  }

  Problems found, cost_mail;
  std::set<std::string, std::less<>> without_effect;

 private:
  void costs_mail(Problem problem) {
    found.push_back(problem);
    cost_mail.push_back(std::move(problem));
  }

  void note_uses(std::string_view text) {
    for (NameUse& use : names_in(text)) used_.insert(std::move(use.name));
    for (const std::string& item : split_list(text)) {
      const std::size_t colon = item.rfind(':');
      if (colon == std::string::npos || colon == 0) continue;
      const std::size_t before = item.rfind(':', colon - 1);
      const std::string_view type = std::string_view(item).substr(
          before == std::string::npos ? 0 : before + 1, colon - (before == std::string::npos ? 0 : before + 1));
      if (std::ranges::find(kSourceTypes, type) != kSourceTypes.end() && item.find('/') == std::string::npos)
        tables_.insert(item.substr(colon + 1));
    }
  }

  /// Checks an -o of master.cf: one of a service that does not run has no effect, except those that cleanup passes on.
  void override_set(const Service& s, const Assignment& a, const Place& place) {
    const bool handed_on = s.command == "cleanup" &&
                           (a.name == "recipient_delimiter" || std::ranges::binary_search(cleanup_settings(), a.name));
    const bool runs = is_own_program(s.command) && s.type != ServiceType::pass;
    const bool hands_on = s.type == ServiceType::pass;  // to the smtpd in place of postscreen
    const Row* row = find_row(a.name);
    if (runs || hands_on || handed_on || !row || row->kind != Class::acts) return name_set(a.name, a.value, place);
    found.push_back({Severity::note, place.file, place.line, a.name,
                     "-o without effect: the program " + s.command + " is not run"});
  }

  /// Checks that the cleanup service named by a service exists.
  void cleanup_of(const Service& s, const Place& place) {
    const auto name = config_.with(s).settings().cleanup_service_name;
    const Service* cleanup = config_.find_service(name, ServiceType::unix_stream);
    if ((cleanup && cleanup->command == "cleanup") || name == "cleanup") return;
    found.push_back({Severity::warning, place.file, place.line, s.label(),
                     "cleanup_service_name: master.cf has no service " + printable(name, 60) +
                         " with the command cleanup; mail is taken in without its -o"});
  }

  /// Whether there is something to report about a documented name.
  bool judge(const Row& row, const std::string& value, Problem& problem) const {
    switch (row.kind) {
      case Class::acts:
        return false;
      case Class::accepted:
        if (is_as_it_is(row, value) || is_idle(row)) return false;
        problem.text = joined("accepted, without effect: ", row.text);
        return true;
      case Class::unsupported: {
        const auto set = config_.expand(value), usual = config_.expand(row.default_text);
        if (set && usual && trim(*set) == trim(*usual)) {
          problem.text = "not supported, and set to what is the case anyway";
        } else {
          problem.severity = Severity::warning;
          problem.text = joined("not supported: ", row.text);
        }
        return true;
      }
      case Class::obsolete:
        problem.severity = Severity::warning;
        problem.text = row.successor.empty()
                           ? joined("an old name: ", row.text)
                           : joined("an old name; set " + std::string(row.successor) + ": ", row.text);
        return true;
    }
    return false;
  }

  bool is_as_it_is(const Row& row, const std::string& value) const {
    const auto expanded = config_.expand(value), usual = config_.expand(row.default_text);
    if (!expanded) return false;
    // The fixed name of a service, or what another setting says that acts in its place.
    const bool usual_is_so = row.name.ends_with("_service_name") ||
                             (row.default_text.starts_with('$') && find_row(row.default_text.substr(1)) != nullptr);
    if (usual_is_so && usual && trim(*expanded) == trim(*usual)) return true;
    return std::ranges::any_of(
        kAsItIs, [&](const auto& known) { return known.first == row.name && iequals(known.second, trim(*expanded)); });
  }

  bool is_idle(const Row& row) const {
    const auto* known = std::ranges::find(kIdle, row.name, &Idle::name);
    if (known == std::end(kIdle) || !known->idle(config_.settings())) return false;
    return std::ranges::all_of(config_.master(), [&](const Service& s) {
      return s.overrides.empty() || known->idle(config_.with(s).settings());
    });
  }

  bool find_transport(std::string_view name) const {
    return std::ranges::any_of(config_.master(),
                               [&](const Service& s) { return s.name == name && s.type != ServiceType::inet; });
  }

  bool judge_transport(const TransportName& split, std::string_view value, Problem& problem) const {
    if (!find_transport(split.transport)) {
      problem.severity = Severity::warning;
      problem.text = "master.cf has no service " + std::string(split.transport) + ", so this has no effect";
      return true;
    }
    const Service* service = config_.find_service(split.transport, ServiceType::unix_stream);
    const std::string_view command = service ? std::string_view(service->command) : std::string_view();
    if (split.suffix->suffix == "_time_limit") {
      if (command == "pipe" || command == "spawn") return false;
      problem.text = "accepted, without effect: only commands of pipe and spawn have such a limit";
      return true;
    }
    if (split.suffix->suffix == "_destination_recipient_limit" && service && one_recipient_only(*service) &&
        trim(value) != "1") {
      problem.text = "taken as 1: " + service->label() + " has flag D or O, for one recipient at a time";
      return true;
    }
    if (split.suffix->acts) return false;
    problem.text = "accepted, without effect: the scheduler does not use this number";
    return true;
  }

  /// Reports "$name" that nobody sets, in a setting that acts.
  void undefined_names(const Row& row, const std::string& value, const Place& place) {
    if (row.type == Type::raw) return;
    for (const NameUse& use : names_in(value)) {
      if (use.tested || config_.written(use.name)) continue;
      found.push_back({Severity::warning, place.file, place.line, std::string(row.name),
                       "it refers to $" + printable(use.name, 60) + ", which is not set and stands for nothing" +
                           meant(use.name, settable(), row.name)});
    }
  }

  /// "; is NAME meant?", or nothing. itself: the setting that is spoken of, which cannot be meant.
  static std::string meant(std::string_view name, std::vector<std::string_view> known, std::string_view itself) {
    std::erase(known, itself);
    const std::string near = nearest_name(name, known);
    return near.empty() ? std::string() : "; is " + near + " meant?";
  }
  std::vector<std::string_view> settable() const {
    auto names = known_;
    names.insert(names.end(), config_.names_set().begin(), config_.names_set().end());
    return names;
  }
  std::vector<std::string_view> all_restrictions() const {
    auto names = restriction_names();
    names.insert(names.end(), classes_.begin(), classes_.end());
    return names;
  }

  bool is_table_source(std::string_view name) const {
    return std::ranges::any_of(tables_, [&](const std::string& table) {
      return name.size() > table.size() + 1 && name.starts_with(table) && name[table.size()] == '_';
    });
  }

  const Config& config_;
  std::set<std::string, std::less<>> used_, classes_, tables_;
  std::vector<std::string_view> known_;
  std::vector<std::pair<const Service*, std::string>> without_login_;  // and why
  bool no_logins_ = false;                                             // smtpd offers AUTH nowhere, though it should
};

}  // namespace

Problems Config::report() const { return findings(*this).all; }

Findings findings(const Config& config) {
  Reporter reporter(config);
  for (const std::string& name : config.names_set())
    reporter.name_set(name, config.written(name).value_or(""), config.where(name).value_or(Place{}));
  for (const Service& service : config.master()) reporter.service(service);
  reporter.logins();
  reporter.transports();
  reporter.handing_in();
  reporter.kept_answers();
  reporter.relaying();
  reporter.restrictions();
  reporter.level();
  Findings out;
  out.all = config.problems();
  out.all.insert(out.all.end(), reporter.found.begin(), reporter.found.end());
  sort_problems(out.all);
  out.cost_mail = std::move(reporter.cost_mail);
  out.without_effect = std::move(reporter.without_effect);
  return out;
}

std::string no_login(const Config& config) {
  const Settings& s = config.settings();
  if (!s.smtpd_sasl_auth_enable || iequals(s.smtpd_sasl_type, "dovecot")) return {};
  if (asks_tokens(s))
    return s.smtpd_sasl_token_file.empty() ? "smtpd_sasl_type is token and smtpd_sasl_token_file is empty: nobody can "
                                             "log in (docs/authentication.md)"
                                           : std::string();
  const std::string what = "smtpd_sasl_auth_enable = yes: AUTH is not offered and nobody can log in, because ";
  if (!asks_login_program(s))
    return what + "smtpd_sasl_type \"" + printable(s.smtpd_sasl_type, 50) +
           "\" is not available, only cyrus, dovecot, table and token (docs/authentication.md)";
  if (cyrus_socket(config)) return {};
  return what + "smtpd_sasl_type is " + (asks_cyrus(s) ? "cyrus" : "table") +
         " and master.cf has no service with the program cyrus: add the line \"" + cyrus_line(config.master()) +
         "\" (docs/authentication.md)";
}

std::vector<OldDefault> old_defaults(const Config& config) {
  std::vector<OldDefault> found;
  if (config.where("compatibility_level") || config.names_set().empty()) return found;
  const Config old = config.with(std::vector<Override>{{"compatibility_level", "0"}});
  for (const Row& row : rows()) {
    if (row.kind != Class::acts || !row.default_text.contains("$compatibility_level") || config.where(row.name))
      continue;
    if (row.name == "mynetworks_style" && config.where("mynetworks")) continue;
    std::string there = old.text(row.name).value_or(""), here = config.text(row.name).value_or("");
    if (there != here) found.push_back({std::string(row.name), std::move(there), std::move(here)});
  }
  // No level makes this one empty here: that could open a relay.
  if (!config.where("smtpd_relay_restrictions"))
    found.push_back({"smtpd_relay_restrictions", "", config.text("smtpd_relay_restrictions").value_or("")});
  const auto by_default = std::ranges::count_if(
      config.master(), [](const Service& s) { return s.columns.size() > 4 && s.columns[4] == "-"; });
  if (by_default > 0) found.push_back({"chroot \"-\" in master.cf", "y", "n"});
  return found;
}

}  // namespace pen::config
