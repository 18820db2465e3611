#include "tools/mistakes.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <set>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/loop.h"
#include "lib/base/date.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/config/expand.h"
#include "lib/map/file_map.h"
#include "lib/map/match_list.h"
#include "lib/map/table_file.h"
#include "lib/net/dns.h"
#include "lib/net/tls/certificate_file.h"
#include "lib/net/tls/context.h"
#include "lib/receive/resolve/name_servers.h"
#include "tools/open_relays.h"
#include "tools/own_tables.h"
#include "tools/table_entries.h"
#include "tools/value_mistakes.h"

namespace pen::tools {
namespace {

using config::Problem;
using config::Severity;

constexpr int kSoon = 14;  // days before a certificate's end
constexpr std::size_t kMaxHosts = 50;

class Finder {
 public:
  Finder(const config::Config& config, const MistakeOptions& options) : config_(config), options_(options) {}

  std::vector<Mistake> find() {
    relaying();
    for (ValueMistake& m : value_mistakes(config_)) found_.push_back({std::move(m.problem), std::move(m.advice)});
    tables();
    certificates();
    certificates_by_name();
    classes();
    if (options_.dns) names();
    return std::move(found_);
  }

 private:
  /// service: where it is set by -o; nullptr: main.cf.
  void say(Severity severity, const std::string& setting, std::string what, std::string advice,
           const config::Service* service = nullptr) {
    Problem p{severity, {}, 0, setting, std::move(what)};
    const auto place = config_.where(setting);
    if (service != nullptr) {
      p.file = config_.master_file();
      p.line = service->line;
    } else if (place) {
      p.file = place->file;
      p.line = place->line;
    } else {
      p.file = config_.main_file();
    }
    found_.push_back({std::move(p), std::move(advice)});
  }

  void relaying() {
    for (const OpenRelay& relay : open_relays(config_))
      say(relay.severity, relay.setting, relay.what, relay.advice, relay.service);
  }

  void tables() {
    for (const OwnTable& table : own_tables(config_)) {
      if (!table.is_stale()) continue;
      say(Severity::warning, setting_of(table.text),
          table.file() + (table.of_files
                              ? " is older than its text or a file that the text names, which was changed since"
                              : " is older than its text, which was changed since"),
          table.command());
    }
  }

  /// The first setting that names the file.
  std::string setting_of(const std::string& file) const {
    for (const auto& name : config_.names_set())
      if (config_.text(name).value_or("").contains(file)) return name;
    return {};
  }

  void certificates() {
    std::set<std::string> seen;
    const auto look = [&](const config::Config& own, const config::Service* service) {
      const auto set_here = [&](const std::string& name) -> const config::Service* {
        const bool mine = service != nullptr &&
                          std::ranges::any_of(service->overrides, [&](const auto& o) { return o.name == name; });
        return mine ? service : nullptr;
      };
      for (const char* side : {"smtpd_tls_", "smtp_tls_", "lmtp_tls_"}) {
        for (const char* kind : {"", "ec", "d"}) {
          const std::string cert_name = fmt::format("{}{}cert_file", side, kind);
          const std::string key_name = fmt::format("{}{}key_file", side, kind);
          const std::string cert = own.text(cert_name).value_or(""), key = own.text(key_name).value_or("");
          if (cert.empty() || cert == "none" || !seen.insert(cert + "\n" + key).second) continue;
          one_certificate(cert_name, cert, set_here(cert_name));
          one_key(key_name, key.empty() ? cert : key, cert, set_here(key_name));
        }
        const std::string chains = std::string(side) + "chain_files";
        for (const auto& file : own.list(chains).value_or(std::vector<std::string>())) {
          if (!seen.insert(file).second) continue;
          one_certificate(chains, file, set_here(chains));
          one_key(chains, file, {}, set_here(chains));
        }
      }
    };
    look(config_, nullptr);
    for (const auto& service : config_.master())
      if (!service.overrides.empty()) look(config_.with(service), &service);
  }

  void one_certificate(const std::string& name, const std::string& path, const config::Service* service) {
    const auto dates = tls::look_at_certificate(path);
    if (!dates) return;  // smtpd's own words on it come with the other findings
    const WallTime now = system_clock().wall_now();
    if (dates->begins > now)
      say(Severity::warning, name, path + " is not valid before " + utc_day(dates->begins),
          "a certificate that is valid now, or the right time on this host", service);
    const auto left = std::chrono::floor<std::chrono::days>(dates->ends - now).count();
    if (left < 0)
      say(Severity::warning, name, path + " has expired on " + utc_day(dates->ends) + ": clients that look refuse it",
          "a renewed certificate", service);
    else if (left < kSoon)
      say(Severity::warning, name, fmt::format("{} expires in {} days, on {}", path, left, utc_day(dates->ends)),
          "a renewed certificate", service);
  }

  void one_key(const std::string& name, const std::string& path, const std::string& cert,
               const config::Service* service) {
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) return;
    if (!tls::holds_private_key(path)) return;
    if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0)
      say(Severity::warning, name, fmt::format("everybody can read {}, which holds a private key", path),
          "chmod 600 " + path, service);
    if (cert.empty()) return;
    if (!tls::key_fits(path, cert).value_or(true))
      say(Severity::error, name, fmt::format("the key in {} is not that of the certificate {}", path, cert),
          "the key with which this certificate was asked for", service);
  }

  /// Files that a table of certificates by name has.
  void certificates_by_name() {
    std::set<std::string> seen;
    const auto look = [&](const config::Config& own, const config::Service* service) {
      const auto tables = own.list("tls_server_sni_maps").value_or(std::vector<std::string>());
      if (!seen.insert(join(tables, " ")).second) return;
      const auto plain = map::plain_tables(join(tables), own.settings().default_database_type);
      for (const PlacedEntry& entry : table_entries(own, tables)) {
        const auto before = found_.size();
        const bool made =
            std::ranges::any_of(plain, [&](const auto& t) { return t.indexed() && t.name == entry.file; });
        one_name_s_chain(entry, made, service);
        for (std::size_t i = before; i < found_.size() && !entry.file.empty(); ++i) {
          found_[i].problem.file = entry.file;
          found_[i].problem.line = static_cast<int>(entry.line);
        }
      }
    };
    look(config_, nullptr);
    for (const auto& service : config_.master())
      if (std::ranges::any_of(service.overrides, [](const auto& o) { return o.name == "tls_server_sni_maps"; }))
        look(config_.with(service), &service);
  }

  /// made: the table is made of the text, with what stands in the files, and lacks a name whose files cannot be read.
  void one_name_s_chain(const PlacedEntry& entry, bool made, const config::Service* service) {
    const std::string setting = "tls_server_sni_maps", who = printable(entry.key, 80) + ": ";
    const std::string lost = ": a TLS handshake that asks for this name fails";
    const std::string left_out = ": a client that asks for this name gets the usual certificate";
    const std::vector<std::string> files = split_list(entry.value);
    if (!entry.value.starts_with('/')) return;  // the chain itself, or a table of another tool
    std::string pem;
    for (const std::string& file : files) {
      const auto text = tls::read_file(file);
      if (!text) {
        if (::geteuid() != 0 && text.error().is_errno(EACCES)) return;
        return say(Severity::warning, setting, who + text.error().message() + (made ? left_out : lost),
                   "the files of the key, of its certificate and of those between, in this order", service);
      }
      pem += *text + "\n";
      one_certificate(setting, file, service);
      one_key(setting, file, {}, service);
    }
    if (const std::string why = tls::fault_of_chains(pem, join(files, " ")); !why.empty())
      say(Severity::warning, setting, who + why + lost, "the key first, its certificate behind it", service);
  }

  /// A domain belongs to one class; the first of these in this order counts.
  void classes() {
    static constexpr const char* kClasses[] = {"mydestination", "virtual_alias_domains", "virtual_mailbox_domains",
                                               "relay_domains"};
    map::OpenOptions usual;
    usual.default_type = config_.settings().default_database_type;
    std::vector<map::MatchList> lists;
    for (const char* name : kClasses) {
      auto list = map::MatchList::open(map::MatchList::Kind::string, config_.text(name).value_or(""),
                                       {.parent_domains = false, .open = usual});
      // A relay_domains that is not set may be mydestination itself.
      const bool counts = list && !list->blocking() && (name != kClasses[3] || config_.where(name));
      lists.push_back(counts ? *std::move(list) : map::MatchList());
    }
    std::set<std::pair<std::string, std::size_t>> told;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      for (const auto& item : config_.list(kClasses[i]).value_or(std::vector<std::string>())) {
        if (item.contains(':') || item.contains('/') || item.starts_with('!') || item.starts_with('.')) continue;
        for (std::size_t j = 0; j < lists.size(); ++j) {
          if (i == j || !lists[j].matches(to_lower(item)).value_or(false)) continue;
          const std::size_t first = std::min(i, j), second = std::max(i, j);
          if (names(kClasses[second], kClasses[first])) continue;  // meant so: relay_domains = $mydestination
          if (!told.insert({to_lower(item), first * lists.size() + second}).second) continue;
          say(Severity::warning, kClasses[second],
              fmt::format("{} is in {} too, which comes first: what is set here for it has no effect",
                          printable(item, 100), kClasses[first]),
              fmt::format("{} in one of the two only", printable(item, 100)));
        }
      }
    }
  }

  /// Whether the value of a setting has that of another in it by its name.
  bool names(std::string_view setting, std::string_view other) const {
    const auto uses = config::names_in(config_.written(setting).value_or(""));
    return std::ranges::find(uses, other, &config::NameUse::name) != uses.end();
  }

  void names() {
    auto servers = resolve::name_servers(config_.settings(), resolve::read_resolv_conf());
    if (!servers) return;  // the error is one of the settings
    async::Loop loop;
    async::HandlerPool pool(loop, 1);
    net::Resolver dns(loop, pool, *std::move(servers));
    loop.spawn("names", look_up(loop, dns));
    loop.run();
  }

  async::Task<void> look_up(async::Loop& loop, net::Resolver& dns) {
    const async::Until until{.deadline = loop.now() + kDnsTime};
    const config::Settings& s = config_.settings();
    // A host that only talks to itself needs no name that others know.
    const auto inside = [](const std::string& i) {
      return i == "loopback-only" || i == "localhost" || i == "127.0.0.1" || i == "[::1]" || i == "::1";
    };
    if (!std::ranges::all_of(s.inet_interfaces, inside))
      co_await one_name(dns, {.setting = "myhostname", .host = s.myhostname, .also_files = false}, until);
    for (const NamedHost& host : named_hosts()) co_await one_name(dns, host, until);
    loop.stop();
  }

  /// A host that a setting names, which mail needs.
  struct NamedHost {
    std::string setting, host;
    bool by_mx = false;      // its MX records will do
    bool also_files = true;  // /etc/hosts, too
    const config::Service* service = nullptr;
    std::string file = {};  // of a table that names it, and where in it
    int line = 0;
  };

  /// Of "host", "[host]:port", "inet:host:port" and the like the host; empty: no name is in it.
  static std::string host_in(std::string_view text) {
    for (const std::string_view start : {"inet:", "inet4:", "inet6:"})
      if (text.starts_with(start)) text.remove_prefix(start.size());
    std::string host(text.starts_with('[') ? text.substr(1, text.find(']') - 1) : text.substr(0, text.find(':')));
    const bool name = host.contains('.') && host.find_first_of("/ \t{}$") == std::string::npos && !parse_ip(host);
    return name ? host : std::string();
  }

  /// What the settings of main.cf or, with a service, its own ones name.
  void hosts_of(const config::Config& own, const config::Service* service, std::vector<NamedHost>& found) const {
    const auto looks = [&](std::string_view setting) {
      return service == nullptr ||
             std::ranges::any_of(service->overrides, [&](const auto& o) { return o.name == setting; });
    };
    const auto words = [&](const std::string& setting) {
      return looks(setting) ? split_list(own.text(setting).value_or("")) : std::vector<std::string>();
    };
    const auto add = [&](const std::string& setting, std::string_view text, bool smtp,
                         const PlacedEntry* entry = nullptr) {
      const bool by_mx = smtp && !text.starts_with('[');
      NamedHost host{setting, host_in(text), by_mx, !smtp, service};
      const auto same = [&](const NamedHost& other) {
        return other.setting == host.setting && other.host == host.host && other.by_mx == by_mx &&
               (entry != nullptr || other.service == service);
      };
      if (host.host.empty() || found.size() >= kMaxHosts || std::ranges::any_of(found, same)) return;
      if (entry != nullptr && !entry->file.empty()) {
        host.file = entry->file;
        host.line = static_cast<int>(entry->line);
      }
      found.push_back(std::move(host));
    };
    for (const char* setting : {"relayhost", "smtp_fallback_relay"})
      for (const std::string& hop : words(setting)) add(setting, hop, true);
    // transport:next hop; only those of smtp and lmtp name hosts
    for (const char* setting : {"content_filter", "default_transport", "relay_transport", "virtual_transport",
                                "local_transport", "mailbox_transport", "fallback_transport"}) {
      for (const std::string& route : words(setting))
        if (const auto hop = hop_of(own, route, {})) add(setting, hop->text, hop->smtp);
    }
    for (const char* setting : {"transport_maps", "sender_dependent_default_transport_maps"})
      for (const PlacedEntry& entry : table_entries(own, words(setting)))
        if (const auto hop = hop_of(own, entry.value, own.settings().default_transport))
          add(setting, hop->text, hop->smtp, &entry);
    for (const PlacedEntry& entry : table_entries(own, words("sender_dependent_relayhost_maps")))
      add("sender_dependent_relayhost_maps", entry.value, true, &entry);
    for (const char* setting : {"smtpd_milters", "non_smtpd_milters"})
      for (const std::string& filter : words(setting))
        if (const auto first = first_word(filter); first.starts_with("inet")) add(setting, first, false);
    for (const std::string& filter : words("smtpd_proxy_filter"))
      if (!filter.starts_with("unix:")) add("smtpd_proxy_filter", filter, false);
    for (const char* setting : {"smtpd_client_restrictions", "smtpd_helo_restrictions", "smtpd_sender_restrictions",
                                "smtpd_relay_restrictions", "smtpd_recipient_restrictions", "smtpd_data_restrictions",
                                "smtpd_end_of_data_restrictions", "smtpd_etrn_restrictions"}) {
      bool next = false;
      for (const std::string& item : words(setting)) {
        if (const auto first = first_word(item); next && first.starts_with("inet:")) add(setting, first, false);
        next = iequals(item, "check_policy_service");
      }
    }
  }

  struct Hop {
    std::string text;
    bool smtp = false;  // by MX where it is not in brackets
  };
  /// The next hop of "transport:hop", if the transport asks for names; usual: the transport of ":hop".
  static std::optional<Hop> hop_of(const config::Config& own, const std::string& route, std::string_view usual) {
    const std::size_t colon = route.find(':');
    if (colon == std::string::npos) return std::nullopt;
    const std::string_view named =
        colon == 0 ? usual.substr(0, usual.find(':')) : std::string_view(route).substr(0, colon);
    const auto* to = own.find_service(named, config::ServiceType::unix_stream);
    std::string hop = route.substr(colon + 1);
    if (to == nullptr || (to->command != "smtp" && to->command != "lmtp") || hop.starts_with("unix:"))
      return std::nullopt;
    const bool smtp = to->command == "smtp" && !hop.starts_with("inet:");
    return Hop{std::move(hop), smtp};
  }

  /// Of "{ inet:host:port, timeout = 5s }" and of "inet:host:port" the server.
  static std::string first_word(std::string_view item) {
    if (item.starts_with('{') && item.ends_with('}')) item = trim(item.substr(1, item.size() - 2));
    return std::string(item.substr(0, item.find_first_of(", \t")));
  }

  std::vector<NamedHost> named_hosts() const {
    std::vector<NamedHost> found;
    hosts_of(config_, nullptr, found);
    for (const auto& service : config_.master())
      if (!service.overrides.empty()) hosts_of(config_.with(service), &service, found);
    return found;
  }

  static bool in_hosts_file(const std::string& name) {
    const auto text = map::read_table_file(_PATH_HOSTS);
    if (!text) return false;
    for (std::string_view line : split(*text, "\n")) {
      line = line.substr(0, line.find('#'));
      for (const std::string_view word : split(line, " \t\r"))
        if (iequals(word, name)) return true;
    }
    return false;
  }

  async::Task<void> one_name(net::Resolver& dns, NamedHost host, async::Until until) {
    using net::DnsOutcome;
    bool temporary = false;
    for (const auto type : {net::RecordType::mx, net::RecordType::a, net::RecordType::aaaa}) {
      if (type == net::RecordType::mx && !host.by_mx) continue;
      const auto answer = co_await dns.lookup(host.host, type, until);
      if (answer.outcome == DnsOutcome::found) co_return;
      temporary = temporary || answer.outcome == DnsOutcome::temporary;
    }
    // Of a server that does not answer nothing is known.
    if (temporary || (host.also_files && in_hosts_file(host.host))) co_return;
    const bool own = host.setting == "myhostname";
    const auto before = found_.size();
    say(host.setting == "relayhost" ? Severity::error : Severity::warning, host.setting,
        printable(host.host, 100) + " has no address in DNS",
        own ? "the name with which this host is in DNS: others refuse mail of one that is not"
        : host.by_mx || !host.also_files ? "a host that exists; [host] leaves out its MX records"
                                         : "a host that exists, or its address",
        host.service);
    if (host.file.empty()) co_return;
    found_[before].problem.file = host.file;
    found_[before].problem.line = host.line;
  }

  const config::Config& config_;
  MistakeOptions options_;
  std::vector<Mistake> found_;
};

}  // namespace

std::vector<Mistake> mistakes(const config::Config& config, const MistakeOptions& options) {
  return Finder(config, options).find();
}

}  // namespace pen::tools
