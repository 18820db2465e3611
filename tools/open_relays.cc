#include "tools/open_relays.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/config/restrictions.h"
#include "lib/map/match_list.h"

namespace pen::tools {
namespace {

using config::Severity;

// Names and addresses that are for documents only (RFC 2606, RFC 5737, RFC 3849, RFC 9637): what has them all has all.
using Addresses = std::array<const char*, 3>;
constexpr Addresses kFamilies[] = {{"192.0.2.213", "198.51.100.213", "203.0.113.213"},
                                   {"2001:db8:d5::1", "2001:db8:ffff:d5::1", "3fff:d5::1"}};
constexpr std::array kDomains = {"stranger.invalid", "mail.unknown.test", "nobody.example"};
constexpr const char* kEverybody = "everybody is in it: anybody can relay";
constexpr const char* kLists[] = {"smtpd_relay_restrictions", "smtpd_recipient_restrictions"};
constexpr unsigned kMaxDepth = 20;

bool is_set_by(const config::Service& service, std::string_view setting) {
  return std::ranges::any_of(service.overrides, [&](const auto& o) { return o.name == setting; });
}

/// One that listens inside only, as behind a filter, may trust its clients.
bool is_public(const config::Service& service) {
  const std::string& name = service.name;
  return service.type == config::ServiceType::inet && !name.starts_with("127.0.0.1:") &&
         !name.starts_with("localhost:") && !name.starts_with("[::1]:");
}

bool is_table(std::string_view item) { return item.contains(':') && !item.starts_with('['); }

map::OpenOptions usual(const config::Config& config) {
  map::OpenOptions options;
  options.default_type = config.settings().default_database_type;
  return options;
}

/// Whether the items, as one list, have all strangers of a family.
bool has_all_addresses(const config::Config& config, const std::string& items) {
  const auto list =
      map::MatchList::open(map::MatchList::Kind::network, items, {.open = usual(config), .keep_faulty = true});
  if (!list || list->blocking()) return false;
  return std::ranges::any_of(kFamilies, [&](const Addresses& family) {
    return std::ranges::all_of(family,
                               [&](const char* address) { return list->matches_address(address).value_or(false); });
  });
}

bool has_all_domains(const config::Config& config, const std::string& item) {
  const auto list = map::MatchList::open(map::MatchList::Kind::domain, item, {.open = usual(config)});
  return list && !list->blocking() &&
         std::ranges::all_of(kDomains, [&](const char* domain) { return list->matches(domain).value_or(false); });
}

/// Walks a list of restrictions as smtpd does for a stranger's mail to strangers.
class Walk {
 public:
  explicit Walk(const config::Config& config) : config_(config) {}

  /// What permits the mail; empty: it is refused. nullopt: the list decides nothing.
  std::optional<std::string> permitted_by(const std::vector<std::string>& items, unsigned depth = 0) const {
    if (depth > kMaxDepth) return std::string();
    bool warns = false;  // what follows warn_if_reject refuses nothing
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string& item = items[i];
      if (iequals(item, "permit")) return item;
      const auto* known = config::find_restriction(item);
      if (known == nullptr) {
        auto within = is_table(item) ? permitted_by_table("", item, depth) : permitted_by_class(item, depth);
        const bool harmless = std::exchange(warns, false);
        if (within && !(harmless && within->empty())) return within;
        continue;
      }
      const bool harmless = std::exchange(warns, known->check == config::Check::warn_if_reject);
      if (known->guards_relaying && !harmless) return std::string();
      if (!known->takes_argument || ++i == items.size() || !item.starts_with("check_")) continue;
      if (auto within = permitted_by_table(item, items[i], depth)) return within;
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> permitted_by_class(const std::string& name, unsigned depth) const {
    const auto& classes = config_.settings().smtpd_restriction_classes;
    if (std::ranges::find(classes, name) == classes.end()) return std::nullopt;
    auto within = permitted_by(config_.list(name).value_or(std::vector<std::string>()), depth + 1);
    if (within && !within->empty()) return fmt::format("{} (class {})", *within, name);
    return within;
  }

  /// check: the restriction; empty: the table alone, which is asked for what its list is about.
  std::optional<std::string> permitted_by_table(const std::string& check, const std::string& table,
                                                unsigned depth) const {
    const auto maps = map::MapList::open(table, usual(config_));
    if (!maps || maps->blocking() || config::find_restriction(table) != nullptr) return std::nullopt;
    for (const Addresses& family : kFamilies) {
      bool all = true;
      for (std::size_t i = 0; all && i < kDomains.size(); ++i)
        all = permits(answer(*maps, check, kDomains[i], family[i]), depth);
      if (all) return (check.empty() ? "" : check + " ") + printable(table, 60);
    }
    return std::nullopt;
  }

  static map::AddressValue answer(const map::MapList& maps, const std::string& check, const std::string& domain,
                                  std::string_view address) {
    const bool of_address = check.contains("sender") || check.contains("recipient") || check.empty();
    if (of_address && !check.ends_with("_mx_access") && !check.ends_with("_ns_access") && !check.ends_with("_a_access"))
      return map::find_access_address(maps, "someone@" + domain, {}, true);
    auto by_name = map::find_access_name(maps, domain, true);
    if (!by_name || *by_name || check != "check_client_access") return by_name;
    return map::find_access_network(maps, address);
  }

  bool permits(const map::AddressValue& answer, unsigned depth) const {
    if (!answer || !*answer) return false;
    const auto words = split_list((*answer)->value);
    if (words.empty()) return false;
    if (iequals(words.front(), "OK") || parse_unsigned(words.front())) return true;
    const auto within = permitted_by(words, depth + 1);
    return within && !within->empty();
  }

  const config::Config& config_;
};

class RelayFinder {
 public:
  explicit RelayFinder(const config::Config& config) : config_(config) {}

  std::vector<OpenRelay> find() {
    of_smtpd(config_, nullptr);
    for (const auto& service : config_.master()) {
      if (service.command == "smtpd" && !service.overrides.empty() && is_public(service))
        of_smtpd(config_.with(service), &service);
      if (service.command == "qmqpd" && is_public(service)) of_qmqpd(config_.with(service), service);
    }
    return std::move(found_);
  }

 private:
  void of_smtpd(const config::Config& own, const config::Service* service) {
    if (looks(service, "mynetworks"))
      networks(own, "mynetworks", service,
               "list the networks of your own hosts only, such as 127.0.0.0/8, 192.0.2.0/24");
    if (constexpr const char* kProxies = "smtpd_authorized_xclient_hosts"; looks(service, kProxies))
      networks(own, kProxies, service,
               "list your own proxies only: a client that may say XCLIENT says whose address it has");
    if (looks(service, "relay_domains")) domains(own, service);
    restrictions(own, service);
  }

  static bool looks(const config::Service* service, std::string_view setting) {
    return service == nullptr || is_set_by(*service, setting);
  }

  void say(Severity severity, const std::string& setting, const config::Service* service, const std::string& what,
           std::string advice) {
    const std::string of = service == nullptr ? "" : "service " + service->label() + ": ";
    found_.push_back({severity, setting, of + what, std::move(advice),
                      service != nullptr && is_set_by(*service, setting) ? service : nullptr});
  }

  void networks(const config::Config& own, const std::string& setting, const config::Service* service,
                const std::string& advice) {
    const auto items = own.list(setting).value_or(std::vector<std::string>());
    bool told = false;
    for (const auto& item : items) {
      const std::string why = is_table(item) && has_all_addresses(own, item) ? kEverybody : too_wide(item);
      if (why.empty()) continue;
      told = told || why == kEverybody;
      say(why == kEverybody ? Severity::error : Severity::warning, setting, service,
          fmt::format("{}: {}", printable(item, 60), why), advice);
    }
    // In pieces, as 0.0.0.0/1 and 128.0.0.0/1.
    if (!told && has_all_addresses(own, join(items, " "))) say(Severity::error, setting, service, kEverybody, advice);
  }

  void domains(const config::Config& own, const config::Service* service) {
    for (const auto& item : own.list("relay_domains").value_or(std::vector<std::string>()))
      if (is_table(item) && has_all_domains(own, item))
        say(Severity::error, "relay_domains", service,
            printable(item, 60) + ": every domain is in it: everybody can send to everybody",
            "list the domains whose mail this host passes on");
  }

  void restrictions(const config::Config& own, const config::Service* service) {
    for (const char* list : kLists) {
      // The second decides alone only where the first is empty.
      if (list == kLists[1] && !own.settings().smtpd_relay_restrictions.empty()) continue;
      if (list == kLists[0] && config::refuses_relaying(own, own.settings().smtpd_recipient_restrictions) &&
          permits_everybody(own, own.settings().smtpd_recipient_restrictions).empty())
        continue;  // what the first permits the second refuses
      const std::string item = permits_everybody(own, own.list(list).value_or(std::vector<std::string>()));
      const bool of_main = service != nullptr && item == of_main_[list];
      if (service == nullptr) of_main_[list] = item;
      if (!item.empty() && !of_main)
        say(Severity::error, list, service, item + " before anything refuses relaying: everybody can send to everybody",
            "permit_mynetworks, permit_sasl_authenticated, reject_unauth_destination");
    }
  }

  void of_qmqpd(const config::Config& own, const config::Service& service) {
    constexpr const char* kName = "qmqpd_authorized_clients";
    networks(own, kName, &service, "list the hosts that hand in mail by QMQP, for any destination, such as 192.0.2.10");
  }

  const config::Config& config_;
  std::map<std::string, std::string, std::less<>> of_main_;  // list -> what permits everybody there
  std::vector<OpenRelay> found_;
};

}  // namespace

std::string permits_everybody(const config::Config& config, const std::vector<std::string>& restrictions) {
  return Walk(config).permitted_by(restrictions).value_or(std::string());
}

std::string too_wide(std::string_view network) {
  // Tables, files and exceptions are for their authors.
  if (network.empty() || network.front() == '!' || network.front() == '/') return {};
  const auto net = parse_network(network);
  if (!net) return {};
  if (net->bits == 0) return kEverybody;
  const auto in = [&](const char* other) {
    const auto own = parse_network(other);
    return own && own->base.size == net->base.size && own->bits <= net->bits && own->contains(net->base);
  };
  for (const char* own : {"10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
                          "169.254.0.0/16", "[fc00::]/7", "[fe80::]/10"})
    if (in(own)) return {};
  const unsigned least = net->base.size == 4 ? 16 : 32;
  if (net->bits >= least) return {};
  return fmt::format("a network of {} hosts, which are hardly all yours",
                     net->base.size == 4 ? std::to_string(1ULL << (32U - net->bits)) : "very many");
}

std::vector<OpenRelay> open_relays(const config::Config& config) { return RelayFinder(config).find(); }

}  // namespace pen::tools
