#include "tools/value_mistakes.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <span>

#include "lib/base/network.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/config/nearest.h"
#include "lib/config/restrictions.h"
#include "lib/mail/address.h"
#include "lib/map/file_map.h"
#include "lib/map/table_file.h"
#include "lib/net/tls/known_names.h"
#include "lib/queue/shaping/limit.h"
#include "lib/suite/service/named_tables.h"
#include "tools/table_entries.h"

namespace pen::tools {
namespace {

using config::Severity;
using Words = std::vector<std::string_view>;

const Words kEnvelopeAndHeader = {"envelope_sender", "envelope_recipient", "header_sender", "header_recipient"};
const Words kKeywords = {"pipelining",   "size",    "vrfy",           "etrn",     "starttls",
                         "auth",         "dsn",     "8bitmime",       "smtputf8", "enhancedstatuscodes",
                         "chunking",     "xclient", "silent-discard", "xforward", "binarymime",
                         "requiretls",   "limits",  "help",           "verp",     "mt-priority",
                         "futurerelease"};
const Words kLocks = {"flock", "fcntl", "dotlock"};
const Words kFrom = {"alias", "forward", "include"};
const Words kLookups = {"dns", "native"};

const Words kSenders = {"envelope_sender", "header_sender"};
const Words kRecipients = {"envelope_recipient", "header_recipient"};
const Words kExtended = {"canonical", "virtual", "alias", "forward", "include", "generic"};
const Words kOwnMail = {"bounce", "notify"};
const Words kDelivered = {"command", "file", "forward"};
const Words kProtocols = {"all", "ipv4", "ipv6"};
const Words kNamedLists = {"debug_peer_list",
                           "fast_flush_domains",
                           "mynetworks",
                           "permit_mx_backup_networks",
                           "postscreen_access_list",
                           "qmqpd_authorized_clients",
                           "relay_domains",
                           "smtpd_access_maps",
                           "smtpd_client_event_limit_exceptions",
                           "transport_maps"};
const Words kDetected = {"all", "sendmail", "smtpd", "qmqpd", "forward", "bounce", "notify", "verify", "milter"};

/// Settings that are lists of words, and the words that mean something.
struct WordList {
  std::string_view setting;
  const Words& known;
};
const WordList kWordLists[] = {{"masquerade_classes", kEnvelopeAndHeader},
                               {"canonical_classes", kEnvelopeAndHeader},
                               {"sender_canonical_classes", kSenders},
                               {"recipient_canonical_classes", kRecipients},
                               {"propagate_unmatched_extensions", kExtended},
                               {"internal_mail_filter_classes", kOwnMail},
                               {"prepend_delivered_header", kDelivered},
                               {"allow_mail_to_commands", kFrom},
                               {"allow_mail_to_files", kFrom},
                               {"mailbox_delivery_lock", kLocks},
                               {"virtual_mailbox_lock", kLocks},
                               {"smtp_host_lookup", kLookups},
                               {"lmtp_host_lookup", kLookups},
                               {"inet_protocols", kProtocols},
                               {"parent_domain_matches_subdomains", kNamedLists},
                               {"smtputf8_autodetect_classes", kDetected},
                               {"smtpd_discard_ehlo_keywords", kKeywords},
                               {"smtp_discard_ehlo_keywords", kKeywords},
                               {"lmtp_discard_ehlo_keywords", kKeywords}};

constexpr std::string_view kActions[] = {"OK",      "permit",  "REJECT", "DEFER",           "DEFER_IF_PERMIT",
                                         "DUNNO",   "DISCARD", "HOLD",   "DEFER_IF_REJECT", "FILTER",
                                         "PREPEND", "INFO",    "WARN",   "REDIRECT",        "BCC"};
// What checks of headers and bodies can do; the second row only while mail is received.
constexpr std::string_view kContentActions[] = {"DUNNO", "OK", "IGNORE", "STRIP", "WARN", "INFO", "PREPEND", "REPLACE"};
constexpr std::string_view kReceivingActions[] = {"REJECT", "DISCARD", "PASS", "HOLD", "FILTER", "REDIRECT", "BCC"};
constexpr std::string_view kMatches[] = {"hostname", "nexthop", "dot-nexthop"};
// Of RFCs and of large providers; whether a mechanism can be spoken is another matter.
constexpr std::string_view kKnownMechanisms[] = {"anonymous",
                                                 "cram-md5",
                                                 "digest-md5",
                                                 "external",
                                                 "gs2-krb5",
                                                 "gssapi",
                                                 "gss-spnego",
                                                 "login",
                                                 "ntlm",
                                                 "oauthbearer",
                                                 "otp",
                                                 "plain",
                                                 "srp",
                                                 "scram-sha-1",
                                                 "scram-sha-1-plus",
                                                 "scram-sha-256",
                                                 "scram-sha-256-plus",
                                                 "scram-sha-512",
                                                 "xoauth2"};
constexpr std::string_view kLevels[] = {"none", "may",       "encrypt", "fingerprint",
                                        "dane", "dane-only", "verify",  "secure"};

bool is_one_of(std::span<const std::string_view> known, std::string_view word) {
  return std::ranges::any_of(known, [&](std::string_view one) { return iequals(one, word); });
}

std::string in_quotes(std::string_view text) { return "\"" + printable(text, 80) + "\""; }

std::int64_t in_hours(milliseconds time) { return std::chrono::floor<std::chrono::hours>(time).count(); }

class ValueFinder {
 public:
  /// service: its -o are looked at; nullptr: main.cf.
  ValueFinder(const config::Config& whole, const config::Config& own, const config::Service* service,
              std::vector<ValueMistake>& found)
      : whole_(whole), own_(own), s_(own.settings()), service_(service), found_(found) {}

  void find() {
    for (const WordList& list : kWordLists) words(list);
    hops();
    transports();
    routes();
    limits();
    access();
    content_checks();
    passwords();
    mechanisms();
    tls_levels();
    tls_names();
    needed();
    if (service_ == nullptr) submission_by_http();
    names();
    domains();
    addresses();
    paths();
    aliases();
  }

 private:
  bool set_here(std::string_view setting) const {
    if (service_ == nullptr) return whole_.where(setting).has_value();
    return std::ranges::any_of(service_->overrides, [&](const auto& o) { return o.name == setting; });
  }
  std::string value(std::string_view setting) const { return own_.text(setting).value_or(""); }
  std::vector<std::string> items(std::string_view setting) const {
    return set_here(setting) ? own_.list(setting).value_or(split_list(value(setting))) : std::vector<std::string>();
  }

  void say(std::string_view setting, std::string what, std::string advice, Severity severity = Severity::warning) {
    config::Problem p{severity, whole_.main_file(), 0, std::string(setting), std::move(what)};
    if (service_ != nullptr) {
      p.file = whole_.master_file();
      p.line = service_->line;
    } else if (const auto place = whole_.where(setting)) {
      p.file = place->file;
      p.line = place->line;
    }
    found_.push_back({std::move(p), std::move(advice)});
  }
  void say_of(const PlacedEntry& entry, std::string_view setting, std::string what, std::string advice) {
    if (entry.file.empty())
      return say(setting, fmt::format("{}: {}", printable(entry.key, 80), what), std::move(advice));
    found_.push_back({{Severity::warning, entry.file, static_cast<int>(entry.line), std::string(setting),
                       fmt::format("{}: {}", printable(entry.key, 80), what)},
                      std::move(advice)});
  }

  void words(const WordList& list) {
    for (const std::string& item : items(list.setting)) {
      if (is_one_of(list.known, item)) continue;
      const std::string near = config::nearest_name(to_lower(item), list.known);
      say(list.setting, in_quotes(item) + " is no word of this list and has no effect",
          near.empty() ? "words of " + join({list.known.begin(), list.known.end()}, ", ") : near);
    }
  }

  void hops() {
    for (const char* setting : {"relayhost", "smtp_fallback_relay"})
      for (const std::string& hop : items(setting))
        if (const std::string why = fault_of_hop(hop); !why.empty())
          say(setting, in_quotes(hop) + " is no next hop: " + why + ": mail that needs it waits",
              "host, host:port, [host] or [host]:port", Severity::error);
  }

  /// A service by which mail can be delivered.
  bool is_transport(std::string_view name) const {
    return std::ranges::any_of(whole_.master(), [&](const config::Service& one) {
      return one.name == name && one.type != config::ServiceType::inet;
    });
  }

  /// What is wrong with "transport:hop"; empty: nothing.
  std::string fault_of_route(std::string_view route) const {
    const auto colon = route.find(':');
    const std::string_view transport = route.substr(0, colon);
    if (!transport.empty() && !is_transport(transport))
      return "master.cf has no service " + printable(transport, 60) + ": such mail waits";
    if (colon == std::string_view::npos) return {};
    const std::string_view hop = route.substr(colon + 1);
    const auto* to = whole_.find_service(transport, config::ServiceType::unix_stream);
    if (hop.empty() || to == nullptr || to->command != "smtp") return {};
    for (const std::string_view one : split(hop))
      if (const std::string why = fault_of_hop(one); !why.empty())
        return in_quotes(one) + " is no next hop: " + why + ": such mail waits";
    return {};
  }

  void transports() {
    for (const char* setting : {"content_filter", "mailbox_transport", "fallback_transport"}) transport(setting);
    // That master.cf lacks one of these, Config::report() says.
    for (const char* setting : {"default_transport", "relay_transport", "local_transport", "virtual_transport"})
      if (const std::string route = value(setting); is_transport(route.substr(0, route.find(':')))) transport(setting);
  }
  void transport(const char* setting) {
    if (!set_here(setting) || value(setting).empty()) return;
    if (const std::string why = fault_of_route(value(setting)); !why.empty())
      say(setting, why, "transport:next-hop, with a transport that master.cf has", Severity::error);
  }

  void routes() {
    for (const char* setting : {"transport_maps", "sender_dependent_default_transport_maps", "mailbox_transport_maps",
                                "fallback_transport_maps"})
      for (const PlacedEntry& entry : table_entries(own_, items(setting)))
        if (const std::string why = fault_of_route(entry.value); !why.empty())
          say_of(entry, setting, why, "transport:next-hop, with a transport that master.cf has");
    for (const PlacedEntry& entry : table_entries(own_, items("sender_dependent_relayhost_maps")))
      if (const std::string why = fault_of_hop(entry.value); !why.empty() && !iequals(entry.value, "DUNNO"))
        say_of(entry, "sender_dependent_relayhost_maps", in_quotes(entry.value) + " is no next hop: " + why,
               "host, host:port, [host] or [host]:port");
  }

  void limits() {
    for (const PlacedEntry& entry : table_entries(own_, items("delivery_limit_maps")))
      if (const auto limit = shaping::parse_limit(entry.value); !limit)
        say_of(entry, "delivery_limit_maps", in_quotes(entry.value) + " " + limit.error() + ": it limits nothing",
               "rate=N/s, N/m, N/h or N/d, or several, as rate=20/s,5000/h, and connections=N");
  }

  void access() {
    const auto& classes = s_.smtpd_restriction_classes;
    for (const std::string& name : own_.names_set()) of_list(name, classes);
    if (service_ != nullptr)
      for (const config::Assignment& o : service_->overrides) of_list(o.name, classes);
    if (!set_here("smtpd_restriction_classes")) return;
    for (const std::string& one : classes) {
      if (config::find_restriction(one) != nullptr)
        say("smtpd_restriction_classes", one + " is a restriction already: the class has no effect", "another name");
      else if (own_.list(one).value_or(std::vector<std::string>()).empty())
        say("smtpd_restriction_classes", "the class " + printable(one, 60) + " has no restrictions: it does nothing",
            one + " = and its restrictions, in main.cf");
    }
  }

  /// The tables of a list of restrictions, and what it needs.
  void of_list(const std::string& name, const std::vector<std::string>& classes) {
    if (!set_here(name) || service::names_in(own_, name) != config::Names::restrictions) return;
    const auto list = own_.list(name).value_or(std::vector<std::string>());
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].ends_with("_sender_login_mismatch") && s_.smtpd_sender_login_maps.empty())
        say(name, list[i] + " does nothing: smtpd_sender_login_maps is empty",
            "smtpd_sender_login_maps = and the table of who owns which address");
      const auto* known = config::find_restriction(list[i]);
      if (known == nullptr || known->takes_argument != config::RestrictionName::table || ++i == list.size()) continue;
      for (const PlacedEntry& entry : table_entries(own_, {list[i]}))
        if (!is_access_action(entry.value, classes))
          say_of(entry, name, in_quotes(entry.value) + " is no action: mail that meets it gets 451 4.3.5", actions());
    }
  }
  static std::string actions() {
    return "OK, REJECT, DUNNO or another action of access tables, a code with a text, or restrictions";
  }

  void content_checks() {
    for (const char* side : {"", "milter_", "smtp_", "lmtp_"})
      for (const char* kind : {"header_checks", "mime_header_checks", "nested_header_checks", "body_checks"}) {
        const std::string setting = std::string(side) + kind;
        const bool receiving = *side == '\0' || std::string_view(side) == "milter_";
        for (const PlacedEntry& entry : table_entries(own_, items(setting)))
          if (const std::string why = fault_of_content_action(entry.value, receiving); !why.empty())
            say_of(entry, setting, in_quotes(entry.value) + " " + why + ": the rule does nothing",
                   "REJECT, DISCARD, IGNORE, HOLD, WARN or another action, as header_checks(5) has them");
      }
  }
  static std::string fault_of_content_action(std::string_view value, bool receiving) {
    value = trim(value);
    const auto space = std::min(value.find_first_of(" \t"), value.size());
    const std::string_view word = value.substr(0, space), argument = trim(value.substr(space));
    if (is_one_of(kReceivingActions, word) && !receiving) return "can only be done while mail is received";
    if (!is_one_of(kContentActions, word) && !is_one_of(kReceivingActions, word)) return "is no action";
    if (iequals(word, "FILTER") && !argument.contains(':')) return "lacks transport:destination";
    if ((iequals(word, "REDIRECT") || iequals(word, "BCC")) && !argument.contains('@')) return "lacks user@domain";
    if ((iequals(word, "PREPEND") || iequals(word, "REPLACE")) && argument.empty()) return "lacks a text";
    return {};
  }

  void passwords() {
    for (const char* setting : {"smtp_sasl_password_maps", "lmtp_sasl_password_maps"}) {
      for (const PlacedEntry& entry : table_entries(own_, items(setting)))
        if (!entry.value.contains(':') && !trim(entry.value).empty())
          say_of(entry, setting, "there is no colon, and so no password", "user:password");
      for (const map::PlainTable& table : map::plain_tables(join(items(setting)), s_.default_database_type)) {
        std::vector<std::string> files = {table.file()};
        if (table.indexed()) files.push_back(table.name);
        for (const std::string& file : files) {
          struct stat st{};
          if (file.starts_with('/') && ::stat(file.c_str(), &st) == 0 && (st.st_mode & S_IROTH) != 0)
            say(setting, "everybody can read " + printable(file, 200) + ", which has passwords", "chmod 600 " + file);
        }
      }
    }
  }

  void mechanisms() {
    for (const char* setting :
         {"smtp_sasl_mechanism_filter", "lmtp_sasl_mechanism_filter", "smtpd_sasl_mechanism_filter"})
      for (std::string item : items(setting)) {
        if (item.starts_with('!')) item.erase(0, 1);
        if (item.contains(':') || item.contains('/') || is_one_of(kKnownMechanisms, item)) continue;
        const std::string near =
            config::nearest_name(to_lower(item), {std::begin(kKnownMechanisms), std::end(kKnownMechanisms)});
        say(setting, in_quotes(item) + " is no mechanism", near.empty() ? "a mechanism, such as plain" : near);
      }
  }

  void tls_levels() {
    for (const char* side : {"smtp", "lmtp"})
      for (const char* kind : {"verify", "secure"}) {
        const std::string setting = fmt::format("{}_tls_{}_cert_match", side, kind);
        const std::string names = set_here(setting) ? value(setting) : std::string();
        for (const std::string_view item : split(names, " \t\r\n,:"))
          if (!is_one_of(kMatches, item) && !item.contains('.'))
            say(setting, in_quotes(item) + " is no name that a certificate can have: such mail waits",
                join({std::begin(kMatches), std::end(kMatches)}, ", ") + ", or a name");
      }
    for (const char* setting : {"smtp_tls_policy_maps", "lmtp_tls_policy_maps"})
      for (const PlacedEntry& entry : table_entries(own_, items(setting))) {
        const std::string_view level = split(entry.value, " \t").empty() ? "" : split(entry.value, " \t").front();
        if (!is_one_of(kLevels, level))
          say_of(entry, setting, in_quotes(level) + " is no level of TLS: mail for it waits",
                 join({std::begin(kLevels), std::end(kLevels)}, ", "));
      }
    for (const char* side : {"smtp", "lmtp"}) {
      const std::string level = fmt::format("{}_tls_security_level", side);
      const std::string dns = fmt::format("{}_dns_support_level", side);
      if (set_here(level) && value(level).starts_with("dane") && value(dns) != "dnssec")
        say(level, value(level) + " needs " + dns + " = dnssec: without it all mail waits", dns + " = dnssec",
            Severity::error);
    }
  }

  void tls_names() {
    for (const char* side : {"smtpd", "smtp", "lmtp"})
      for (const char* kind : {"exclude_ciphers", "mandatory_exclude_ciphers"}) {
        const std::string setting = fmt::format("{}_tls_{}", side, kind);
        ciphers(setting, join(items(setting), " "));
      }
    for (const char* setting : {"tls_high_cipherlist", "tls_medium_cipherlist", "tls_null_cipherlist"})
      if (set_here(setting)) ciphers(setting, value(setting));
    for (const char* setting : {"tls_eecdh_auto_curves", "tls_ffdhe_auto_groups"})
      for (const std::string& item : items(setting))
        if (!tls::is_known_group(item))
          say(setting, in_quotes(item) + " is no group for key exchange and has no effect",
              "a group, as openssl ecparam -list_curves has them, or X25519");
  }
  void ciphers(const std::string& setting, const std::string& list) {
    for (const std::string& name : tls::unknown_ciphers(list))
      say(setting, in_quotes(name) + " is no cipher and has no effect", "a name, as openssl ciphers ALL has them");
    for (std::string_view name : split(list, " \t\r\n,:")) {
      if (name.starts_with('!')) name.remove_prefix(1);
      if (tls::is_tls13_suite(name))
        say(setting, in_quotes(name) + " has no effect: suites of TLS 1.3 are always there",
            "protocols without TLSv1.3, if they are not to be used");
    }
  }

  void needed() {
    if (set_here("smtp_sasl_auth_enable") && s_.smtp.sasl_auth_enable && value("smtp_sasl_password_maps").empty())
      say("smtp_sasl_auth_enable", "smtp_sasl_password_maps is empty: there is no password to log in with",
          "smtp_sasl_password_maps = and the table of passwords");
    if (set_here("maximal_backoff_time") || set_here("minimal_backoff_time"))
      if (s_.maximal_backoff_time < s_.minimal_backoff_time)
        say(set_here("maximal_backoff_time") ? "maximal_backoff_time" : "minimal_backoff_time",
            fmt::format("maximal_backoff_time ({} s) is less than minimal_backoff_time ({} s)",
                        s_.maximal_backoff_time.count(), s_.minimal_backoff_time.count()),
            "a maximal_backoff_time that is not less");
    if (set_here("delay_warning_time") && s_.delay_warning_time.count() > 0 &&
        s_.delay_warning_time >= s_.maximal_queue_lifetime)
      say("delay_warning_time", "mail is returned before it is warned of: maximal_queue_lifetime is not longer",
          "less than maximal_queue_lifetime");
    if ((set_here("bounce_queue_lifetime") || set_here("maximal_queue_lifetime")) &&
        s_.bounce_queue_lifetime > s_.maximal_queue_lifetime)
      say(set_here("bounce_queue_lifetime") ? "bounce_queue_lifetime" : "maximal_queue_lifetime",
          fmt::format("a notice that cannot be delivered waits longer ({} h) than other mail ({} h)",
                      in_hours(s_.bounce_queue_lifetime), in_hours(s_.maximal_queue_lifetime)),
          "bounce_queue_lifetime = $maximal_queue_lifetime, or less", Severity::note);
    if ((set_here("smtpd_soft_error_limit") || set_here("smtpd_hard_error_limit")) &&
        s_.smtpd_soft_error_limit > s_.smtpd_hard_error_limit)
      say(set_here("smtpd_soft_error_limit") ? "smtpd_soft_error_limit" : "smtpd_hard_error_limit",
          "smtpd_soft_error_limit is more than smtpd_hard_error_limit, which ends the session before",
          "a smtpd_soft_error_limit that is less");
    if (set_here("default_privs") && value("default_privs") == "root")
      say("default_privs", "commands and files of aliases are not for root: such mail waits", "nobody");
    // Warnings: transport_maps may lead all this mail elsewhere.
    const std::string& to = s_.virtual_transport;
    const auto* agent = whole_.find_service(to.substr(0, to.find(':')), config::ServiceType::unix_stream);
    if (service_ != nullptr || !whole_.where("virtual_mailbox_domains") || value("virtual_mailbox_domains").empty() ||
        agent == nullptr || agent->command != "virtual")
      return;
    if (value("virtual_mailbox_maps").empty())
      say("virtual_mailbox_domains", "virtual_mailbox_maps is empty: no mailbox of these domains is known",
          "virtual_mailbox_maps = and the table of mailboxes");
    if (!value("virtual_mailbox_base").starts_with('/'))
      say(set_here("virtual_mailbox_base") ? "virtual_mailbox_base" : "virtual_mailbox_domains",
          "virtual_mailbox_base is no directory from / on: mail for these domains waits",
          "virtual_mailbox_base = /directory");
    for (const PlacedEntry& entry : table_entries(own_, items("virtual_mailbox_maps")))
      if (entry.value.starts_with("../") || entry.value.contains("/../"))
        say_of(entry, "virtual_mailbox_maps", in_quotes(entry.value) + " leads out of its directory: its mail waits",
               "a path below virtual_mailbox_base");
    for (const char* ids : {"virtual_uid_maps", "virtual_gid_maps"}) {
      if (value(ids).empty())
        say("virtual_mailbox_domains", fmt::format("{} is empty: mail for these domains waits", ids),
            fmt::format("{} = static:NUMBER", ids));
      for (const PlacedEntry& entry : table_entries(own_, items(ids)))
        if (!parse_unsigned(entry.value))
          say_of(entry, ids, in_quotes(entry.value) + " is no number: its mail waits", "the number, as id shows it");
        else if (std::string_view(ids) == "virtual_uid_maps" &&
                 *parse_unsigned(entry.value) < static_cast<unsigned long long>(s_.virtual_minimum_uid))
          say_of(entry, ids, in_quotes(entry.value) + " is less than virtual_minimum_uid: its mail waits",
                 fmt::format("{} or more", s_.virtual_minimum_uid));
      for (const std::string& item : items(ids))
        if (item.starts_with("static:") && !parse_unsigned(std::string_view(item).substr(7)))
          say(ids, in_quotes(item) + " is no number: mail for these domains waits", "the number, as id shows it");
    }
  }

  /// What the service needs that takes mail from penapi: see docs/http-submission.md.
  void submission_by_http() {
    std::set<std::string> names = {s_.penapi_submission_service};
    for (const config::Service& service : whole_.master())
      if (service.command == "penapi" && !service.overrides.empty())
        names.insert(whole_.with(service).settings().penapi_submission_service);
    for (const std::string& name : names)
      if (!name.empty()) submission_service(name);
  }

  void submission_service(const std::string& name) {
    constexpr const char* kSetting = "penapi_submission_service";
    const config::Service* service = whole_.find_service(name, config::ServiceType::unix_stream);
    if (service == nullptr || service->command != "smtpd" || !service->is_private)
      return say(kSetting,
                 service == nullptr ? fmt::format("master.cf has no service {} of type unix: requests get 503", name)
                                    : fmt::format("{} is no private smtpd: requests get 503", service->label()),
                 "the lines of handin in the master.cf that comes with Penstock", Severity::error);
    const config::Config own = whole_.with(*service);
    const config::Settings& s = own.settings();
    const auto lower = [&](const char* setting) { return to_lower(own.text(setting).value_or("")); };
    const auto wants = [&](bool met, const char* setting, const char* wanted, const char* why) {
      if (met) return;
      config::Problem p{Severity::error, whole_.master_file(), service->line, setting, {}};
      p.text = fmt::format("\"{}\" in service {}, which {} names: {}", printable(lower(setting), 80), service->label(),
                           kSetting, why);
      found_.push_back({std::move(p), fmt::format("  -o {}={}", setting, wanted)});
    };
    constexpr const char* kNone = "no token is taken, and requests get 503";
    constexpr const char* kPlain = "the socket has no TLS, and requests get 503";
    wants(s.smtpd_sasl_auth_enable, "smtpd_sasl_auth_enable", "yes", kNone);
    wants(lower("smtpd_sasl_type") == "token", "smtpd_sasl_type", "token", kNone);
    wants(!s.smtpd_sasl_token_file.empty(), "smtpd_sasl_token_file", "$config_directory/submission_tokens", kNone);
    wants(lower("smtpd_upstream_proxy_protocol") == "haproxy", "smtpd_upstream_proxy_protocol", "haproxy",
          "the address of the client comes before the greeting, and requests get 503");
    wants(!s.smtpd_tls_auth_only, "smtpd_tls_auth_only", "no", kPlain);
    wants(!s.smtpd_tls_wrappermode, "smtpd_tls_wrappermode", "no", kPlain);
    const std::string level = lower("smtpd_tls_security_level");
    wants(level.empty() || level == "none" || level == "may", "smtpd_tls_security_level", "none", kPlain);
    const auto discarded = split_list(lower("smtpd_discard_ehlo_keywords"));
    const auto kept = [&](const char* keyword) { return std::ranges::find(discarded, keyword) == discarded.end(); };
    wants(kept("chunking") && kept("auth"), "smtpd_discard_ehlo_keywords", "",
          "CHUNKING and AUTH are needed, and requests get 503");
  }

  void names() {
    if (set_here("myhostname") && !mail::valid_hostname(s_.myhostname))
      say("myhostname", in_quotes(s_.myhostname) + " is no host name", "the name of this host in DNS", Severity::error);
    if (set_here("mydomain") && !mail::valid_hostname(value("mydomain")))
      say("mydomain", in_quotes(value("mydomain")) + " is no domain", "the domain of this host", Severity::error);
    for (const char* setting : {"smtp_helo_name", "lmtp_lhlo_name"})
      if (const std::string name = set_here(setting) ? value(setting) : std::string();
          !name.empty() && !mail::valid_hostname(name) && !(name.starts_with('[') && name.ends_with(']')))
        say(setting, in_quotes(name) + " is no host name: hosts that look refuse it", "the name of this host in DNS");
    if (set_here("myorigin") && s_.myorigin.empty())
      say("myorigin", "empty: addresses without a domain get none", "$myhostname, or $mydomain");
    if (set_here("always_bcc") && !s_.always_bcc.empty()) {
      std::vector<std::string> skipped;
      const auto listed = mail::parse_address_list(s_.always_bcc, 2, &skipped);
      if (listed.size() != 1 || !skipped.empty() || s_.always_bcc.find(' ') != std::string::npos)
        say("always_bcc", in_quotes(s_.always_bcc) + " is not one address", "one address");
    }
    if (const std::string set = set_here("recipient_delimiter") ? value("recipient_delimiter") : std::string();
        set.find_first_of("@<>()[]\\,;:\"") != std::string::npos || std::ranges::any_of(set, ascii_space))
      say("recipient_delimiter", in_quotes(set) + " has characters that no user part has as they are",
          "the characters that begin an extension, such as + or +-, with nothing between");
    else if (std::ranges::any_of(set, ascii_alnum))
      say("recipient_delimiter", in_quotes(set) + ": letters and digits stand in names of users, which would end there",
          "the characters that begin an extension, such as + or +-");
    for (const char* setting : {"smtp_bind_address", "smtp_bind_address6", "lmtp_bind_address", "lmtp_bind_address6"})
      if (set_here(setting) && !value(setting).empty() && !parse_ip(bare(value(setting))))
        say(setting, in_quotes(value(setting)) + " is no address: connections leave from any of this host",
            "an address of this host, in numbers");
    for (const std::string& item : items("mynetworks"))
      if (!item.contains(':') && !item.contains('/') && !item.starts_with('!') && !item.starts_with('[') &&
          !parse_ip(item))
        say("mynetworks", in_quotes(item) + " is no network: it matches nobody", "a network, such as 192.0.2.0/24");
    const std::string command = set_here("mailbox_command") ? value("mailbox_command") : std::string();
    const std::string program = command.substr(0, command.find_first_of(" \t"));
    if (program.starts_with('/') && ::access(program.c_str(), X_OK) != 0)
      say("mailbox_command", printable(program, 200) + " cannot be run: mail for users of this host waits",
          "a program that is there");
  }
  /// Lists of domains.
  void domains() {
    for (const char* setting :
         {"mydestination", "relay_domains", "virtual_alias_domains", "virtual_mailbox_domains", "masquerade_domains"})
      for (const std::string& item : items(setting)) {
        std::string_view name = item;
        while (name.starts_with('!') || name.starts_with('.')) name.remove_prefix(1);
        const auto of_name = [](char c) { return ascii_alnum(c) || std::string_view("._-").contains(c) || c < 0; };
        if (name.starts_with('[') || name.starts_with('/') || name.contains(':') || std::ranges::all_of(name, of_name))
          continue;
        say(setting, in_quotes(item) + " is no domain", "domains with commas or blanks between them");
      }
  }

  void addresses() {
    for (const char* setting :
         {"luser_relay", "double_bounce_sender", "address_verify_sender", "error_notice_recipient",
          "bounce_notice_recipient", "2bounce_notice_recipient", "delay_notice_recipient", "empty_address_recipient"})
      if (const std::string one = set_here(setting) ? value(setting) : std::string();
          !one.starts_with('"') && one.find_first_of(" \t,;") != std::string::npos)
        say(setting, in_quotes(one) + " is not one address", "one address");
  }

  void paths() {
    for (const char* setting : {"queue_directory", "data_directory", "mail_spool_directory"})
      if (const std::string path = set_here(setting) ? value(setting) : std::string();
          !path.empty() && !path.starts_with('/'))
        say(setting, in_quotes(path) + " does not begin with /: it is another directory for each program",
            "the whole path", Severity::error);
    for (const char* setting : {"smtpd_tls_CApath", "smtp_tls_CApath", "lmtp_tls_CApath", "virtual_mailbox_base"})
      if (const std::string path = set_here(setting) ? value(setting) : std::string();
          path.starts_with('/') && ::access(path.c_str(), F_OK) != 0)
        say(setting, printable(path, 200) + " is not there", "a directory that is there");
    if (set_here("home_mailbox") && value("home_mailbox").starts_with('/'))
      say("home_mailbox", in_quotes(value("home_mailbox")) + " is below the user's home directory all the same",
          "the path below the home directory, such as Maildir/; mail_spool_directory is for boxes elsewhere");
    for (const std::string& item : items("forward_path"))
      if (!item.starts_with('/') && !item.starts_with('$'))
        say("forward_path", in_quotes(item) + " begins neither with / nor with $home: no such file is found",
            "$home/.forward");
  }

  /// Programs and lists that aliases name.
  void aliases() {
    for (const map::PlainTable& table : map::plain_tables(join(items("alias_maps")), s_.default_database_type)) {
      if (!table.indexed() && table.type != "texthash") continue;
      const auto text = map::read_table_file(table.name);
      if (!text) continue;
      for (map::TableEntry& entry : map::parse_aliases(*text, table.name).entries) {
        const PlacedEntry placed{std::move(entry), table.name};
        for (std::string_view item : split(placed.value, ",")) {
          item = trim(item);
          while (item.starts_with('"')) item.remove_prefix(1);
          const bool command = item.starts_with('|'), list = item.starts_with(":include:");
          if (command) item = trim(item.substr(1));
          if (list) item.remove_prefix(std::string_view(":include:").size());
          const std::string path(item.substr(0, item.find_first_of(" \t\"")));
          if ((!command && !list) || !path.starts_with('/') || ::access(path.c_str(), command ? X_OK : R_OK) == 0)
            continue;
          say_of(placed, "alias_maps",
                 printable(path, 200) + (command ? " cannot be run" : " cannot be read") + ": mail for it waits",
                 command ? "a program that is there" : "a list that is there");
        }
      }
    }
  }

  static std::string bare(std::string text) {
    return text.starts_with('[') && text.ends_with(']') ? text.substr(1, text.size() - 2) : text;
  }

  const config::Config& whole_;
  const config::Config& own_;
  const config::Settings& s_;
  const config::Service* service_;
  std::vector<ValueMistake>& found_;
};

}  // namespace

std::string fault_of_hop(std::string_view hop) {
  std::string_view host = hop, port;
  if (hop.starts_with('[')) {
    const auto close = hop.find(']');
    if (close == std::string_view::npos) return "[ has no ]";
    host = hop.substr(1, close - 1);
    port = hop.substr(close + 1);
    if (!port.empty() && port.front() != ':') return "what is behind ] is no port";
  } else if (const auto colon = hop.rfind(':'); colon != std::string_view::npos) {
    host = hop.substr(0, colon);
    port = hop.substr(colon);
  }
  if (!port.empty() && !tcp_port(port.substr(1))) return in_quotes(port.substr(1)) + " is no port";
  if (istarts_with(host, "ipv6:")) host.remove_prefix(5);
  if (!mail::valid_hostname(host, true) && !mail::valid_address(host)) return in_quotes(host) + " is no host";
  return {};
}

bool is_access_action(std::string_view value, const std::vector<std::string>& classes) {
  const std::vector<std::string> words = split_list(value);
  if (words.empty()) return false;
  const std::string& first = words.front();
  if (is_one_of(kActions, first) || parse_unsigned(first)) return true;
  // "5.7.1 text" stands behind REJECT; "550 5.7.1 text" is a code, which is digits.
  return config::find_restriction(first) != nullptr || first.contains(':') ||
         std::ranges::find(classes, first) != classes.end();
}

std::vector<ValueMistake> value_mistakes(const config::Config& config) {
  std::vector<ValueMistake> found;
  ValueFinder(config, config, nullptr, found).find();
  for (const config::Service& service : config.master()) {
    if (service.overrides.empty()) continue;
    const config::Config own = config.with(service);
    ValueFinder(config, own, &service, found).find();
  }
  return found;
}

}  // namespace pen::tools
