#include "tools/tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/config/expand.h"
#include "lib/config/transport_use.h"
#include "lib/map/database_table.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"
#include "lib/map/socketmap_limits.h"
#include "lib/map/table_file.h"
#include "lib/suite/service/approved_tables.h"
#include "lib/suite/service/named_tables.h"
#include "lib/suite/sessions/classes.h"

namespace pen::tools {
namespace {

using config::Place;
using config::Problem;
using config::Severity;
using map::MatchList;

/// No mail asks it: newaliases and penalias say what is wrong with it.
constexpr std::string_view kNotAsked = "alias_database";

/// The settings that local and virtual open without OpenOptions::substitute and ::served, where they deliver.
struct OfDestinations {
  std::string_view setting, program;
};
constexpr std::array<OfDestinations, 7> kOfDestinations = {{{"alias_maps", "local"},
                                                            {"fallback_transport_maps", "local"},
                                                            {"mailbox_command_maps", "local"},
                                                            {"mailbox_transport_maps", "local"},
                                                            {"virtual_gid_maps", "virtual"},
                                                            {"virtual_mailbox_maps", "virtual"},
                                                            {"virtual_uid_maps", "virtual"}}};

MatchList::Kind kind_of(config::Names names) {
  switch (names) {
    case config::Names::domains:
      return MatchList::Kind::domain;
    case config::Names::hosts:
      return MatchList::Kind::host;
    case config::Names::networks:
      return MatchList::Kind::network;
    default:
      return MatchList::Kind::string;
  }
}

std::string_view type_of(std::string_view item) {
  while (item.starts_with('!')) item.remove_prefix(1);
  item = map::without_adapters(item);
  const auto colon = item.find(':');
  return colon == std::string_view::npos ? std::string_view() : item.substr(0, colon);
}

/// While it lives, database tables of the old form (mysql:name) find their parameters in this main.cf, and proxy: is
/// for the tables that its proxy_read_maps approves.
class MainCf {
 public:
  explicit MainCf(const config::Config& config) {
    map::database::ask_main_cf([&config](const std::string& name) { return config.text(name); });
    approve_by(config);
    const config::Settings& s = config.settings();
    map::limit_socketmaps({.query = static_cast<std::size_t>(s.socketmap_max_query_size),
                           .reply = static_cast<std::size_t>(s.socketmap_max_reply_size)});
  }
  /// Of a service: its own list counts too.
  static void approve_by(const config::Config& config) {
    map::approve_proxied([&config](const std::string& table) { return service::approves(config, table); });
  }
  MainCf(const MainCf&) = delete;
  MainCf& operator=(const MainCf&) = delete;
  ~MainCf() {
    map::database::ask_main_cf({});
    map::approve_proxied({});
  }
};

class Finder {
 public:
  Finder(const config::Config& config, bool overrides, Severity passed_over)
      : config_(config), overrides_(overrides), passed_over_(passed_over) {
    options_.default_type = config.settings().default_database_type;
  }

  void setting(const std::string& name, const std::optional<Place>& place) {
    const auto items = config_.list(name);
    if (!items) return;
    const config::Names names = service::names_in(config_, name);
    if (config::is_match_list(names)) return list(name, place, kind_of(names), *items);
    for (const std::string& item : service::tables_among(*items, names)) table(name, place, item);
  }

  config::Problems found;

 private:
  /// Whether local or virtual opens the setting's tables: where another program delivers, these only say which users
  /// exist.
  bool of_destinations(std::string_view name) const {
    const auto known = std::ranges::find(kOfDestinations, name, &OfDestinations::setting);
    return known != kOfDestinations.end() && std::ranges::any_of(config_.master(), [&](const config::Service& s) {
             return s.command == known->program && config::transport_is_used(config_.settings(), s.name);
           });
  }

  void table(const std::string& name, const std::optional<Place>& place, std::string item) {
    item.erase(0, item.find_first_not_of('!'));
    map::OpenOptions options = options_;
    options.substitute = options.served = !of_destinations(name);
    auto [at, fresh] = seen_.try_emplace({item, options.substitute});
    if (fresh) {
      auto opened = map::open(item, options);
      if (!opened) {
        at->second = map::advice(opened.error());
      } else if (type_of(item) == "fail") {
        at->second.clear();  // made invalid on purpose
      } else if (auto problem = (*opened)->problem()) {
        at->second = map::advice(std::move(*problem).within((*opened)->name()));
      } else {
        for (const std::string& note : (*opened)->notes())
          found.push_back({passed_over_, place ? place->file : std::string(), place ? place->line : 0, name,
                           (*opened)->name() + ": " + note});
      }
    }
    if (!at->second.empty()) complain(name, place, at->second);
  }

  void list(const std::string& name, const std::optional<Place>& place, MatchList::Kind kind,
            const std::vector<std::string>& items) {
    for (const std::string& item : items) {
      if (is_table(kind, item)) {
        table(name, place, item);
      } else if (const std::string why = fault_of(kind, item); !why.empty() && !told_elsewhere(name, item, why)) {
        complain(name, place, why + "; put it right");
      }
    }
  }

  /// Empty: it has none.
  std::string fault_of(MatchList::Kind kind, const std::string& item) const {
    const auto opened = MatchList::open(kind, item, {.open = options_});
    return opened ? std::string() : opened.error().message();
  }

  /// The item is there by $name alone, as by $mynetworks: of that setting the same is said.
  bool told_elsewhere(const std::string& setting, const std::string& item, const std::string& why) const {
    const std::string written = config_.written(setting).value_or(std::string());
    if (written.contains(item)) return false;
    for (const config::NameUse& use : config::names_in(written)) {
      const config::Row* other = config::find_row(use.name);
      if (other == nullptr || other->kind != config::Class::acts || use.name == setting) continue;
      const config::Names names = service::names_in(config_, use.name);
      const auto items = config_.list(use.name).value_or(std::vector<std::string>());
      if (config::is_match_list(names) && std::ranges::find(items, item) != items.end() &&
          fault_of(kind_of(names), item) == why)
        return true;
    }
    return false;
  }

  /// True: MatchList takes the item as a table.
  static bool is_table(MatchList::Kind kind, std::string_view item) {
    while (item.starts_with('!')) item.remove_prefix(1);
    if (item.starts_with('[') || item.starts_with('/') || !item.contains(':')) return false;
    const bool addresses = kind == MatchList::Kind::network || kind == MatchList::Kind::host;
    return !addresses || !parse_ip(item.substr(0, item.find('/')));
  }

  void complain(const std::string& name, const std::optional<Place>& place, std::string text) {
    Problem p{place || overrides_ ? Severity::error : Severity::warning, place ? place->file : std::string(),
              place ? place->line : 0, name, std::move(text)};
    found.push_back(std::move(p));
  }

  const config::Config& config_;
  bool overrides_;
  Severity passed_over_;  // of a line
  map::OpenOptions options_;
  std::map<std::pair<std::string, bool>, std::string> seen_;  // table -> what is wrong with it
};

}  // namespace

config::Problems class_problems(const config::Config& config) {
  config::Problems found;
  const auto look = [&](const std::string& text, const std::optional<Place>& place) {
    auto parsed = sessions::Classes::parse(text);
    if (!parsed) {
      found.push_back({Severity::error, place ? place->file : std::string(), place ? place->line : 0, "session_classes",
                       parsed.error()});
    }
    return parsed && !parsed->empty();
  };
  bool any = look(config.settings().session_classes, config.where("session_classes"));
  for (const config::Service& service : config.master()) {
    for (const config::Assignment& a : service.overrides) {
      if (a.name == "session_classes")
        any = look(config.with(service).settings().session_classes, Place{config.master_file(), service.line}) || any;
    }
  }
  if (any && config.find_service("anvil", config::ServiceType::unix_stream) == nullptr) {
    found.push_back({Severity::warning, config.master_file(), 0, "session_classes",
                     "needs the service anvil, which is not in master.cf: without it each program "
                     "counts its own sessions only; add the line that conf/master.cf has"});
  }
  return found;
}

config::Problems table_problems(const config::Config& config, Severity passed_over) {
  const MainCf main_cf(config);
  Finder finder(config, false, passed_over);
  for (const config::Row& row : config::rows()) {
    if (row.kind != config::Class::acts || row.name == kNotAsked) continue;
    const std::string name(row.name);
    finder.setting(name, config.where(name));
  }
  for (const std::string& name : config.settings().smtpd_restriction_classes) finder.setting(name, config.where(name));
  config::Problems found = std::move(finder.found);
  for (const config::Service& service : config.master()) {
    if (service.overrides.empty()) continue;
    const config::Config own = config.with(service);
    MainCf::approve_by(own);
    Finder of_service(own, true, passed_over);
    for (const config::Assignment& a : service.overrides) {
      const config::Row* row = config::find_row(a.name);
      if (row && row->kind == config::Class::acts && a.name != kNotAsked)
        of_service.setting(a.name, Place{config.master_file(), service.line});
    }
    for (Problem& p : of_service.found) found.push_back(std::move(p));
    MainCf::approve_by(config);
  }
  for (Problem& p : class_problems(config)) found.push_back(std::move(p));
  config::sort_problems(found);
  return found;
}

}  // namespace pen::tools
