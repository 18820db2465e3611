#include "tools/value_mistakes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "lib/base/network.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/config/nearest.h"
#include "lib/config/restrictions.h"
#include "lib/mail/address.h"
#include "tools/table_entries.h"

namespace pen::tools {
namespace {

using config::Severity;
using Words = std::vector<std::string_view>;

const Words kEnvelopeAndHeader = {"envelope_sender", "envelope_recipient", "header_sender", "header_recipient"};
const Words kKeywords = {"pipelining", "size",    "vrfy",           "etrn",     "starttls",
                         "auth",       "dsn",     "8bitmime",       "smtputf8", "enhancedstatuscodes",
                         "chunking",   "xclient", "silent-discard", "xforward", "binarymime",
                         "requiretls", "limits",  "help",           "verp"};
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
constexpr std::string_view kLevels[] = {"none", "may",       "encrypt", "fingerprint",
                                        "dane", "dane-only", "verify",  "secure"};

bool is_one_of(std::span<const std::string_view> known, std::string_view word) {
  return std::ranges::any_of(known, [&](std::string_view one) { return iequals(one, word); });
}

std::string in_quotes(std::string_view text) { return "\"" + printable(text, 80) + "\""; }

class ValueFinder {
 public:
  /// service: whose -o are looked at; nullptr: main.cf.
  ValueFinder(const config::Config& whole, const config::Config& own, const config::Service* service,
              std::vector<ValueMistake>& found)
      : whole_(whole), own_(own), s_(own.settings()), service_(service), found_(found) {}

  void find() {
    for (const WordList& list : kWordLists) words(list);
    hops();
    transports();
    routes();
    access();
    tls_levels();
    needed();
    names();
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
    const bool is_class = std::ranges::find(classes, name) != classes.end();
    if (!set_here(name) || (!is_class && !(name.starts_with("smtpd_") && name.ends_with("_restrictions")))) return;
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

  void tls_levels() {
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

  void needed() {
    if (set_here("smtp_sasl_auth_enable") && s_.smtp_sasl_auth_enable && value("smtp_sasl_password_maps").empty())
      say("smtp_sasl_auth_enable", "smtp_sasl_password_maps is empty: there is no password to log in with",
          "smtp_sasl_password_maps = and the table of passwords");
    if (set_here("maximal_backoff_time") || set_here("minimal_backoff_time"))
      if (s_.maximal_backoff_time < s_.minimal_backoff_time)
        say(set_here("maximal_backoff_time") ? "maximal_backoff_time" : "minimal_backoff_time",
            fmt::format("maximal_backoff_time ({} s) is less than minimal_backoff_time ({} s)",
                        s_.maximal_backoff_time.count(), s_.minimal_backoff_time.count()),
            "a maximal_backoff_time that is not less");
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
    for (const char* ids : {"virtual_uid_maps", "virtual_gid_maps"}) {
      if (value(ids).empty())
        say("virtual_mailbox_domains", fmt::format("{} is empty: mail for these domains waits", ids),
            fmt::format("{} = static:NUMBER", ids));
      for (const std::string& item : items(ids))
        if (item.starts_with("static:") && !parse_unsigned(std::string_view(item).substr(7)))
          say(ids, in_quotes(item) + " is no number: mail for these domains waits", "the number, as id shows it");
    }
  }

  void names() {
    if (set_here("myhostname") && !mail::valid_hostname(s_.myhostname))
      say("myhostname", in_quotes(s_.myhostname) + " is no host name", "the name of this host in DNS", Severity::error);
    if (set_here("myorigin") && s_.myorigin.empty())
      say("myorigin", "empty: addresses without a domain get none", "$myhostname, or $mydomain");
    if (set_here("always_bcc") && !s_.always_bcc.empty()) {
      std::vector<std::string> skipped;
      const auto listed = mail::parse_address_list(s_.always_bcc, 2, &skipped);
      if (listed.size() != 1 || !skipped.empty() || s_.always_bcc.find(' ') != std::string::npos)
        say("always_bcc", in_quotes(s_.always_bcc) + " is not one address", "one address");
    }
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
